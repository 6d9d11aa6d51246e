// The page: which conversation is shown, the list of them, the field to write in, and what is said to screen readers.

import { Api } from "./api.js";
import { Entries } from "./entries.js";
import { keys } from "./keys.js";
import { Shelf } from "./shelf.js";
import { Talk } from "./talk.js";
import { el, newId, oneLine } from "./text.js";
import { ThreadList } from "./threads.js";
import { askToken } from "./token.js";

const SAVE_MS = 400;
const SLOW_MS = 20; // a drawing that takes longer leaves the page time for other things
const NEAR_PX = 80; // so near to the end, the page follows what comes
const $ = (id) => document.getElementById(id);
const WORDS = { running: "answering…", lost: "connection lost, trying again…", stopping: "stopping…" };

const api = new Api(askToken);
const state = { agents: [], agent: null, talk: null, shelf: null, list: null, dirty: false, follows: true, leads: false, cost: 0 };
const entries = new Entries($("entries"), { answer, retry: () => state.talk.retry() });

/** Take an answer, and lead the keyboard on to what is asked next. */
function answer(question, given) {
  state.talk.answer(question, given);
  state.leads = Boolean(given);
}

/** Draw at the next frame, however often this is called until then. */
function draw() {
  if (state.dirty) return;
  state.dirty = true;
  setTimeout(() => requestAnimationFrame(drawn), state.cost > SLOW_MS ? 4 * state.cost : 0);
}

function drawn() {
  const began = performance.now();
  state.dirty = false;
  const { talk } = state;
  entries.draw();
  if (talk.turn !== "wait") {
    if (state.leads && talk.turn === "answer" && !isWriting()) toQuestion();
    state.leads = false;
  }
  if (state.follows) $("scroll").scrollTop = $("scroll").scrollHeight;
  $("down").hidden = state.follows;
  $("welcome").hidden = talk.kept.entries.length > 0;
  $("title").textContent = oneLine(talk.kept.title || "New conversation", 80);
  $("send").hidden = talk.busy;
  $("stop").hidden = !talk.busy;
  $("stop").disabled = talk.state === "stopping";
  const open = talk.transcript.questions.length;
  $("send").disabled = talk.turn !== "write" || !$("prompt").value.trim();
  $("hint").textContent = talk.turn === "answer" ? hint(talk.transcript.questions) : "";
  $("leave").hidden = talk.turn !== "answer";
  $("link").textContent = WORDS[talk.state] || (open ? "waits for you" : "ready");
  $("link").className = `link is-${talk.busy ? talk.state : open ? "paused" : "live"}`;
  state.cost = performance.now() - began;
}

/** Whether a person is in the middle of a message; then the keyboard stays there. */
function isWriting() {
  return document.activeElement === $("prompt") && $("prompt").value !== "";
}

function hint(questions) {
  const open = questions.filter((one) => !one.answer).length;
  if (open > 1) return `${open} questions above wait for your answers.`;
  return questions.length > 1 ? "One more question above waits for your answer." : "The question above waits for your answer.";
}

/** What a conversation tells: an "entry" changed, its "state" did, or its run is at its "end". */
function told(talk, what, about) {
  if (what === "entry") save(talk);
  if (what === "end") {
    save(talk, { now: true });
    refresh();
  }
  if (talk !== state.talk) return;
  if (what === "entry") entries.changed(about);
  if (what === "end") speak(talk, about);
  draw();
}

/** Say what is new to who listens, once it is whole, and lead the keyboard to what is asked. */
function speak(talk, event) {
  const [question] = talk.transcript.questions;
  const said = talk.transcript.entries.findLast((entry) => entry.kind === "text");
  if (event.type === "LEFT") return;
  if (event.type === "RUN_ERROR") $("alerts").textContent = event.code === "aborted" ? "Stopped." : `It went wrong: ${event.message}`;
  else if (question) $("alerts").textContent = `A question waits for your answer: ${question.message || question.reason}`;
  else $("news").textContent = said ? `${talk.kept.agent} says: ${said.text}` : "Finished.";
  if (question && document.activeElement === $("prompt")) state.leads = true;
  else if (!question && document.activeElement === document.body) toPrompt();
}

/** To the field to write in; where a keyboard would cover half the screen, a person asks for it. */
function toPrompt() {
  if (matchMedia("(hover: hover)").matches) $("prompt").focus();
}

function toQuestion() {
  (document.querySelector(".question:not(.is-settled, .is-answered)") ?? document.querySelector(".question:not(.is-settled)"))?.focus({ preventScroll: false });
}

function save(talk, { now = false } = {}) {
  if (!talk.kept.entries.length || talk.forgotten) return;
  if (now) {
    clearTimeout(talk.saving);
    talk.saving = null;
    state.shelf.save(talk.kept);
  } else talk.saving ??= setTimeout(() => save(talk, { now: true }), SAVE_MS);
}

/** Show a conversation; the one that is left goes on in the server, and is read on when it is shown again. */
function show(kept) {
  if (state.talk) {
    state.talk.leave();
    save(state.talk, { now: true });
  }
  const talk = new Talk(api, kept, (what, about) => told(talk, what, about));
  state.talk = talk;
  state.follows = true;
  setAgent(kept.agent);
  entries.show(talk);
  history.replaceState(null, "", kept.entries.length || kept.title ? `#${encodeURIComponent(kept.id)}` : location.pathname);
  if (kept.run) talk.readOn();
  else if (kept.entries.length || state.list.find(kept.id)) sync(talk);
  showList();
  closeList();
  draw();
}

function fresh() {
  show({ id: newId("thread"), agent: state.agent, title: "", at: Date.now(), entries: [], run: null, after: null });
  toPrompt();
}

/** Show a conversation that is kept here, or else by the server. */
function open(id) {
  const kept = state.shelf.load(id);
  const remote = state.list.find(id);
  if (kept) show(kept);
  else if (remote) show({ ...remote, entries: [], run: null, after: null });
  else showList();
}

/** Take over what the server has of a conversation: it may have gone on elsewhere. */
async function sync(talk) {
  const told = await api.thread(talk.kept.agent, talk.kept.id).catch(() => null); // away, or nothing is kept there
  if (told && talk === state.talk) talk.sync(told);
  draw();
}

function showList() {
  state.list.show(state.shelf, state.talk?.kept.id, state.agents.length > 1);
}

/** A conversation was deleted. */
function forgot(id) {
  if (id !== state.talk.kept.id) return showList();
  state.talk.forgotten = true;
  fresh();
}

function setAgent(name) {
  state.agent = name;
  $("agent").value = name;
  $("agent-name").textContent = oneLine(name, 60);
  document.title = `${oneLine(name, 60)} · chat`;
}

function send() {
  const text = $("prompt").value.trim();
  if (!text || state.talk.turn !== "write") return;
  $("prompt").value = "";
  grow();
  state.follows = true;
  state.talk.send(text);
  history.replaceState(null, "", `#${encodeURIComponent(state.talk.kept.id)}`);
  save(state.talk, { now: true });
  showList();
  $("news").textContent = "Sent; the answer is on its way.";
}

function grow() {
  const field = $("prompt");
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, 220)}px`;
}

function setTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme.startsWith("dark");
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("interpose-chat-theme", document.documentElement.dataset.theme);
  } catch {
    // not kept then
  }
}

function step(by) {
  const { rows } = state.list;
  const next = rows[rows.findIndex((one) => one.id === state.talk.kept.id) + by];
  if (next) open(next.id);
}

/** Ask the server for its list of conversations. */
async function refresh() {
  showList();
  await state.list.load(api, state.agents);
  showList();
}

function openList() {
  document.body.classList.add("has-list");
  $("list").setAttribute("aria-expanded", "true");
  $("fresh").focus();
}

function closeList() {
  if (!document.body.classList.contains("has-list")) return;
  document.body.classList.remove("has-list");
  $("list").setAttribute("aria-expanded", "false");
  $("list").focus();
}

function listen() {
  $("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  $("prompt").addEventListener("input", () => {
    grow();
    draw();
  });
  $("prompt").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  $("leave").addEventListener("click", () => {
    state.talk.leaveQuestions();
    $("prompt").focus();
  });
  $("stop").addEventListener("click", () => state.talk.stop());
  for (const id of ["fresh", "fresh-top"]) $(id).addEventListener("click", fresh);
  $("theme").addEventListener("click", setTheme);
  $("help").addEventListener("click", () => $("keys").showModal());
  $("list").addEventListener("click", () => (document.body.classList.contains("has-list") ? closeList() : openList()));
  $("veil").addEventListener("click", closeList);
  $("down").addEventListener("click", () => {
    state.follows = true;
    draw();
  });
  $("agent").addEventListener("change", () => {
    state.agent = $("agent").value;
    fresh();
  });
  $("scroll").addEventListener("scroll", () => {
    const { scrollHeight, scrollTop, clientHeight } = $("scroll");
    state.follows = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    $("down").hidden = state.follows;
  }, { passive: true });
  addEventListener("pagehide", () => state.talk && save(state.talk, { now: true }));
  addEventListener("hashchange", () => open(asked()));
  addEventListener("storage", showList);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    refresh();
    if (!state.talk.busy && state.talk.kept.entries.length) sync(state.talk);
  });
  keys({ fresh, step, toQuestion, stop: () => state.talk.stop(), theme: setTheme, closeList });
}

function asked() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // typed by hand; then it names no conversation
  }
}

/** Ask the server for its agents, until it answers. */
async function begin() {
  try {
    const { agents } = await api.agents();
    if (!agents.length) throw new Error("this server has no agents");
    state.agents = agents.map((one) => one.name);
  } catch (error) {
    $("broken-why").textContent = oneLine(error instanceof TypeError ? "The server cannot be reached." : error.message, 300);
    $("broken").hidden = false;
    $("again").onclick = () => location.reload();
    $("link").textContent = "not connected";
    $("link").className = "link is-lost";
    return;
  }
  state.shelf = new Shelf(api.token);
  state.list = new ThreadList($("threads"), $("no-threads"), { open, forgot });
  await state.list.load(api, state.agents);
  $("agent").replaceChildren(...state.agents.map((name) => el("option", { value: name, text: oneLine(name, 60) })));
  $("agent-box").hidden = state.agents.length < 2;
  state.agent = state.agents[0];
  listen();
  if (state.shelf.load(asked()) || state.list.find(asked())) open(asked());
  else fresh();
}

begin();
