// Before anything is drawn: the theme that was chosen last, else that of the system.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("interpose-chat-theme");
  } catch {
    // storage may be forbidden; then the system decides
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
