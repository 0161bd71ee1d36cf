// The answer as a paragraph to paste. The viewer of MLflow is a sandbox, which has no clipboard but that of a selection.
for (const made of document.querySelectorAll("button.copy")) {
  made.addEventListener("click", () => {
    const area = document.createElement("textarea");
    area.value = made.dataset.text;
    area.className = "unseen";
    made.after(area);
    area.select();
    if (document.execCommand("copy")) made.textContent = "Copied ✓";
    area.remove();
    made.focus();
  });
}
