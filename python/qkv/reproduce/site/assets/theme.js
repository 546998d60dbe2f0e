// Before the page is drawn: the colours chosen last time, and a mark that scripts run.
document.documentElement.classList.add("js");
try {
  const chosen = localStorage.getItem("qkv-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch (error) {
  // A browser that keeps nothing for local files follows the system.
}
