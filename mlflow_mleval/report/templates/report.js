// The viewer of MLflow is a sandbox without anchors: the table of contents scrolls by itself.
for (const button of document.querySelectorAll("nav button")) {
  button.addEventListener("click", () => {
    const section = document.getElementById(button.dataset.to);
    section.open = true;
    section.scrollIntoView({behavior: "smooth", block: "start"});
  });
}
// Paper shows everything, then the page is as it was.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const part of closed) part.open = true;
});
addEventListener("afterprint", () => { for (const part of closed) part.open = false; });
