// The keyboard. What is not typed into a field goes through conversations and the page.

const $ = (id) => document.getElementById(id);

export function keys(acts) {
  const doing = {
    "/": () => $("prompt").focus(),
    n: acts.fresh,
    "[": () => acts.step(-1),
    "]": () => acts.step(1),
    a: acts.toQuestion,
    s: acts.stop,
    t: acts.theme,
    "?": () => $("keys").showModal(),
    Escape: acts.closeList,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
    const typing = event.target.closest("input, textarea, select");
    if (typing) {
      if (event.key === "Escape") typing.blur();
      return;
    }
    const action = doing[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
