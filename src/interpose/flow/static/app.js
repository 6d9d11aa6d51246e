// The page: what is chosen, what is drawn when, and how the parts talk to each other.

import { Details } from "./details.js";
import { Graph } from "./graph.js";
import { keys } from "./keys.js";
import { RunHead, RunList } from "./runs.js";
import { Search } from "./search.js";
import { Store } from "./store.js";
import { connect } from "./stream.js";
import { el, oneLine } from "./text.js";
import { Waterfall } from "./waterfall.js";

const CLOCK_MS = 100; // how often running clocks move on
const BUSY_MS = 80; // how often a busy run is drawn
const RUSH_MS = 200; // how often other details are shown while nodes rush by
const LOADED = 4; // runs whose nodes are kept in this page beside the one that is shown
const LINKS = { live: "live", lost: "connection lost, trying again", refused: "refused, trying again" };
const $ = (id) => document.getElementById(id);

const store = new Store(changed);
const search = new Search(() => draw());
const parts = { choose: (node) => choose(node, { open: true }), fold };
const graph = new Graph($("graph"), parts);
const waterfall = new Waterfall($("time"), $("axis"), parts);
const details = new Details($("details"), parts);
const list = new RunList($("runs"), $("run-count"), { open: (run) => openRun(run, { byHand: true }) });
const head = new RunHead($("run-head"));

const state = { run: null, node: null, following: true, looked: [], dirty: false, moved: false, soon: null, drawnAt: 0, detailsAt: 0 };

/** Draw at the next frame, however often this is called until then. */
function draw() {
  if (state.dirty) return;
  state.dirty = true;
  requestAnimationFrame(drawn);
}

/** Draw soon: a busy run tells more than a person can see. */
function drawSoon() {
  if (!state.soon) state.soon = setTimeout(draw, Math.max(0, state.drawnAt + BUSY_MS - performance.now()));
}

function drawn() {
  clearTimeout(state.soon);
  const now = Date.now();
  [state.dirty, state.soon, state.drawnAt] = [false, null, performance.now()];
  list.show(store.list, state.run, now);
  head.show(state.run, now);
  if (state.run) {
    const view = { selected: state.node, matches: search.matches, now };
    graph.show(state.run, view);
    waterfall.show(state.run, view);
    if (state.moved) {
      graph.reveal(state.node);
      waterfall.reveal(state.node);
      state.moved = false;
    }
  }
  showDetails();
  $("found").textContent = search.matches ? found(search.matches) : "";
  document.body.classList.toggle("is-empty", !store.list.length);
}

/** Show the chosen node; while nodes rush by, only now and then. */
function showDetails() {
  const rushing = state.following && state.run?.running && state.node !== details.node && performance.now() - state.detailsAt < RUSH_MS;
  if (rushing) {
    setTimeout(draw, RUSH_MS);
    return;
  }
  if (details.show(state.run, state.node)) state.detailsAt = performance.now();
}

function found(matches) {
  if (!matches.size) return "none";
  const at = [...state.run.rows()].filter((node) => matches.has(node)).indexOf(state.node);
  return at < 0 ? String(matches.size) : `${at + 1} of ${matches.size}`;
}

/** The store tells what changed: the list of "runs", or an "event" of one. */
function changed(what, run) {
  if (state.run && !store.runs.has(state.run.id)) state.run = null;
  if (state.following) follow();
  if (!state.run && store.list.length) openRun(asked() || store.list[0]);
  if (what === "event" && run === state.run) search.again();
  drawSoon();
}

/** Go to the newest run where the shown one is over, and to the node that began last. */
function follow() {
  const newest = store.list.find((run) => run.running && !run.gone);
  if (newest && !(state.run && state.run.running && !state.run.gone) && !asked()) openRun(newest);
  const latest = state.run && newestOf(state.run);
  if (latest && latest !== state.node) choose(latest);
}

function newestOf(run) {
  const latest = run.latest;
  return run.running || !latest ? latest : run.roots[0];
}

/** The run that the address of the page names, until it was opened. */
function asked() {
  let id = location.hash.slice(1);
  try {
    id = decodeURIComponent(id);
  } catch {
    // typed by hand; then it names no run
  }
  return id && state.asked !== id ? store.runs.get(id) : null;
}

function openRun(run, { byHand = false } = {}) {
  if (byHand) setFollowing(run.running);
  if (state.run !== run) {
    [state.run, state.node] = [run, null];
    state.looked = [run, ...state.looked.filter((one) => one !== run)];
    for (const one of state.looked.splice(LOADED + 1)) if (!one.gone) unload(one);
    state.asked = run.id;
    if (byHand || location.hash) history.replaceState(null, "", `#${encodeURIComponent(run.id)}`);
    document.title = `${oneLine(run.summary.name, 80)} · Flow`;
    graph.clear();
    waterfall.clear();
    search.look(run, search.text);
  }
  if (!run.loaded) store.load(run);
  if (byHand && document.body.dataset.pane === "runs") setPane("graph");
  if (!state.node && run.roots.length) state.node = run.roots[0];
  draw();
}

function unload(run) {
  run.loaded = false;
  run.reset();
}

/** Choose a node; `open` where a person did it, which ends the following. */
function choose(node, { open = false } = {}) {
  if (open) setFollowing(false);
  for (let one = node.parent; one; one = one.parent) unfold(one);
  state.node = node;
  state.moved = true;
  if (open && narrow()) setPane("details");
  draw();
}

function fold(node) {
  if (!unfold(node)) {
    state.run.folded = new Set([...state.run.folded, node.id]);
    state.run.version += 1;
  }
  draw();
}

function unfold(node) {
  if (!state.run.folded.has(node.id)) return false;
  state.run.folded = new Set([...state.run.folded].filter((id) => id !== node.id));
  state.run.version += 1;
  return true;
}

function setFollowing(on) {
  state.following = on;
  $("follow").setAttribute("aria-pressed", on);
  if (on && state.run) {
    follow();
    state.moved = true;
    draw();
  }
}

function setPane(name) {
  document.body.dataset.pane = name;
  for (const button of document.querySelectorAll("[data-pane-to]")) button.setAttribute("aria-pressed", button.dataset.paneTo === name);
  draw();
}

function setSplit(name) {
  document.body.dataset.split = name;
  for (const button of document.querySelectorAll("[data-split-to]")) button.setAttribute("aria-pressed", button.dataset.splitTo === name);
  draw();
}

function narrow() {
  return matchMedia("(max-width: 760px)").matches;
}

function setTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme.startsWith("dark");
  const theme = dark ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("flow-theme", theme);
  } catch {
    // not kept then
  }
}

function listen() {
  $("follow").addEventListener("click", () => setFollowing(!state.following));
  $("theme").addEventListener("click", setTheme);
  $("help").addEventListener("click", () => $("keys").showModal());
  $("zoom-in").addEventListener("click", () => graph.zoom(1));
  $("zoom-out").addEventListener("click", () => graph.zoom(-1));
  $("find").addEventListener("input", () => search.look(state.run, $("find").value.trim()));
  for (const button of document.querySelectorAll("[data-pane-to]")) button.addEventListener("click", () => setPane(button.dataset.paneTo));
  for (const button of document.querySelectorAll("[data-split-to]")) button.addEventListener("click", () => setSplit(button.dataset.splitTo));
  for (const id of ["graph", "time"]) {
    for (const kind of ["wheel", "touchmove"]) $(id).addEventListener(kind, () => state.following && state.run?.running && setFollowing(false), { passive: true });
  }
  window.addEventListener("hashchange", () => {
    state.asked = null;
    const run = asked();
    if (run) openRun(run, { byHand: true });
  });
}

function empty() {
  const words = el("div", { class: "empty is-page" }, el("h2", { text: "No runs yet" }), el("p", { text: "As soon as an agent that has Flow among its middleware runs, its nodes appear here." }));
  $("graph").append(words);
}

async function tellWhatIsShown() {
  try {
    const { stored } = await (await fetch("api/info")).json();
    if (!stored) return;
    LINKS.live = `stored in ${stored}`;
    setFollowing(false);
  } catch {
    // the stream will say that the app is away
  }
}

listen();
empty();
setSplit("both");
setPane("graph");
keys({ state, store, search, graph, actions: { choose, fold, unfold, openRun, setFollowing, setSplit, setPane, setTheme, narrow } });
tellWhatIsShown().then(() =>
  connect(store, (link) => {
    $("link").textContent = LINKS[link];
    $("link").className = `link is-${link}`;
  }),
);
setInterval(() => {
  if (state.run?.running || store.list.some((run) => run.running)) draw();
}, CLOCK_MS);
