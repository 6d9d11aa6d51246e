// The keyboard. What is not typed into a field moves through nodes and runs.

const $ = (id) => document.getElementById(id);

export function keys({ state, store, search, graph, actions }) {
  const rows = () => state.run?.rows() || [];

  function move(by) {
    const all = rows();
    const at = all.indexOf(state.node);
    go(all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + by))]);
  }

  function go(node) {
    if (!node) return;
    actions.setFollowing(false);
    actions.choose(node);
  }

  function left() {
    const node = state.node;
    if (!node) return;
    if (node.children.length && !state.run.folded.has(node.id)) actions.fold(node);
    else go(node.parent);
  }

  function right() {
    const node = state.node;
    if (node && !actions.unfold(node)) go(node.children[0]);
    else if (node) actions.choose(node);
  }

  function error(by) {
    const all = rows();
    const at = all.indexOf(state.node);
    const order = by > 0 ? [...all.slice(at + 1), ...all.slice(0, at + 1)] : [...all.slice(0, Math.max(at, 0)).reverse(), ...all.slice(Math.max(at, 0)).reverse()];
    go(order.find((node) => node.status === "error"));
  }

  function run(by) {
    const at = store.list.indexOf(state.run);
    const next = store.list[Math.min(store.list.length - 1, Math.max(0, at + by))];
    if (next && next !== state.run) actions.openRun(next, { byHand: true });
  }

  function details() {
    if (actions.narrow()) actions.setPane("details");
    $("details").focus();
  }

  const doing = {
    ArrowDown: () => move(1), j: () => move(1),
    ArrowUp: () => move(-1), k: () => move(-1),
    PageDown: () => move(12), PageUp: () => move(-12),
    ArrowLeft: left, ArrowRight: right,
    Home: () => go(rows()[0]), End: () => go(rows().at(-1)),
    e: () => error(1), E: () => error(-1),
    "[": () => run(-1), "]": () => run(1),
    f: () => actions.setFollowing(!state.following),
    n: () => go(search.next(state.node, 1, rows())), N: () => go(search.next(state.node, -1, rows())),
    "/": () => $("find").select(),
    1: () => actions.setSplit("both"), 2: () => actions.setSplit("graph"), 3: () => actions.setSplit("time"),
    "+": () => graph.zoom(1), "-": () => graph.zoom(-1), 0: () => graph.zoom(0),
    t: actions.setTheme,
    "?": () => $("keys").showModal(),
    Enter: details,
    Escape: leave,
  };
  const inRuns = { ArrowDown: () => run(1), ArrowUp: () => run(-1), j: () => run(1), k: () => run(-1) };
  const scrolls = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End", "ArrowLeft", "ArrowRight"];

  function leave() {
    $("find").value = "";
    search.look(state.run, "");
    $("graph").focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
    const target = event.target;
    if (target.id === "find") {
      if (event.key === "Enter") go(search.next(state.node, event.shiftKey ? -1 : 1, rows()));
      else if (event.key === "Escape") leave();
      else return;
      event.preventDefault();
      return;
    }
    const isControl = target.closest("button, summary, a, input");
    if (isControl && ["Enter", " "].includes(event.key)) return;
    if (target.closest("#details") && scrolls.includes(event.key)) return;
    const action = (target.closest("#runs") && inRuns[event.key]) || doing[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
