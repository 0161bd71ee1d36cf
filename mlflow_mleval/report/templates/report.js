// The answer as a paragraph to paste. The viewer of MLflow is a sandbox, which has no clipboard but that of a selection.
document.querySelector("button.copy")?.addEventListener("click", ({target}) => {
  const area = document.createElement("textarea");
  area.value = target.dataset.text;
  area.className = "unseen";
  target.after(area);
  area.select();
  target.textContent = document.execCommand("copy") ? "Copied" : "Copy as text";
  area.remove();
  target.focus();
});
// Paper shows everything, then the page is as it was.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const part of closed) part.open = true;
});
addEventListener("afterprint", () => { for (const part of closed) part.open = false; });
