// `/` goes to the search, and blocks of code have a button that copies them. Without this file everything else works.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const search = document.getElementById("search");
  if (search) {
    event.preventDefault();
    search.focus();
  }
});
for (const block of document.querySelectorAll(".markdown pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.textContent);
    button.textContent = "Copied";
  });
  block.before(button);
}
