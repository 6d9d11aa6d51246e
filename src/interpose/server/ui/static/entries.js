// The entries of a conversation on the page: each has one element, which is made once and brought up to date.

import { blocks } from "./markdown.js";
import { questionOf } from "./question.js";
import { button, count, duration, el, icon, oneLine, shown } from "./text.js";
import { parsed, pretty, valueOf } from "./value.js";

const STATES = {
  writing: ["is-running", "being written"],
  running: ["is-running", "running"],
  asked: ["is-paused", "waits for you"],
  refused: ["is-quiet", "not run"], // by the person here, whose answer stands below it
  unrun: ["is-quiet", "not run"],
  failed: ["is-bad", "failed"],
  cut: ["is-quiet", "cut off"],
  done: ["is-ok", "done"],
};

export class Entries {
  /** `acts` has `answer(question, answer)` and `retry()`. */
  constructor(box, acts) {
    [this.box, this.acts] = [box, acts];
    this.made = new Map(); // entry -> { node, update }
    this.dirty = new Set();
    this.waiting = el("div", { class: "waiting", "aria-hidden": "true" }, el("i"), el("i"), el("i"));
  }

  show(talk) {
    this.talk = talk;
    this.made.clear();
    this.dirty.clear();
    this.box.replaceChildren();
    this.draw();
  }

  changed(entry) {
    this.dirty.add(entry);
  }

  /** Bring the elements up to date with the entries. */
  draw() {
    const { entries } = this.talk.transcript;
    for (const entry of this.dirty) {
      if (entries.includes(entry)) continue;
      this.made.get(entry)?.node.remove();
      this.made.delete(entry);
    }
    let before = this.box.firstChild;
    for (const entry of entries) {
      const made = this.made.get(entry) || this.add(entry);
      if (this.dirty.has(entry)) made.update();
      const slot = this.slotOf(entry);
      if (slot) {
        if (made.node.parentNode !== slot) slot.append(made.node);
      } else if (made.node === before) before = before.nextSibling;
      else this.box.insertBefore(made.node, before);
    }
    this.dirty.clear();
    this.box.classList.toggle("is-busy", this.talk.busy);
    const silent = this.talk.busy && !entries.some((entry) => (entry.open && entry.text) || (entry.kind === "call" && ["writing", "running"].includes(entry.state)));
    if (silent) this.box.append(this.waiting);
    else this.waiting.remove();
  }

  /** A question about a call stands in the call. */
  slotOf(entry) {
    const call = entry.kind === "question" && entry.call ? this.talk.transcript.find("call", entry.call) : null;
    return call ? this.made.get(call)?.slot : null;
  }

  add(entry) {
    const made = MAKERS[entry.kind] ? MAKERS[entry.kind](entry, this.acts, this.talk) : plainOf(entry);
    this.made.set(entry, made);
    return made;
  }
}

const MAKERS = { __proto__: null, user: userOf, text: textOf, reasoning: reasoningOf, call: callOf, note: noteOf, question: (entry, acts) => questionOf(entry, acts.answer), error: errorOf, stopped: stoppedOf, usage: usageOf };

function plainOf(entry) {
  return { node: el("div", { class: "quiet", text: oneLine(entry.kind) }), update() {} };
}

function speaker(name) {
  return el("h3", { class: "visually-hidden", text: name });
}

function userOf(entry) {
  const body = el("div", { class: "bubble", dir: "auto" });
  const update = () => (body.textContent = shown(entry.text));
  update();
  return { node: el("article", { class: "entry is-user" }, speaker("You"), body), update };
}

/** A text grows at its end: only the blocks that are other ones are made anew. */
function textOf(entry, _, talk) {
  const node = el("article", { class: "entry is-text" }, speaker(oneLine(talk.kept.agent, 80)));
  const body = el("div", { class: "words" });
  node.append(body);
  const sources = [];
  const update = () => {
    const found = blocks(entry.text);
    let at = 0;
    while (at < found.length && sources[at] === found[at].source) at += 1;
    while (body.children.length > at) body.lastChild.remove();
    sources.length = at;
    for (const block of found.slice(at)) {
      body.append(block.make());
      sources.push(block.source);
    }
    node.hidden = !found.length;
    node.classList.toggle("is-open", Boolean(entry.open));
    node.classList.toggle("is-half", Boolean(entry.half));
  };
  update();
  return { node, update };
}

function reasoningOf(entry) {
  const summary = el("summary");
  const body = el("div", { class: "reasoning-text", dir: "auto" });
  const node = el("details", { class: "entry is-reasoning" }, summary, body);
  const update = () => {
    summary.textContent = entry.open ? "Reasoning…" : "Reasoning";
    node.classList.toggle("is-open", Boolean(entry.open));
    body.textContent = shown(entry.text);
  };
  update();
  return { node, update };
}

function callOf(entry) {
  const state = el("span", { class: "state" });
  const brief = el("span", { class: "call-brief" });
  const came = el("div", { class: "call-came" });
  const body = el("div", { class: "call-body" });
  const slot = el("div", { class: "call-slot" });
  const name = el("span", { class: "call-name" });
  const card = el("details", { class: "call" }, el("summary", {}, icon("tool"), name, brief, state, came), body);
  const node = el("div", { class: "entry is-call" }, card, slot);
  const fill = () => {
    const hasResult = entry.result !== undefined;
    const edited = entry.edited ? " (edited by you)" : "";
    body.replaceChildren(el("h4", { text: `Arguments${edited}` }), valueOf(entry.args || "{}", "Arguments"), ...(hasResult ? [el("h4", { text: "Result" }), valueOf(entry.result, "Result")] : []));
  };
  const update = () => {
    const [kind, text] = STATES[entry.state] || STATES.cut;
    state.className = `state ${kind}`;
    state.textContent = text;
    card.className = `call ${kind}`;
    name.textContent = oneLine(entry.name, 80);
    brief.textContent = oneLine(briefly(entry.args), 300);
    came.textContent = entry.result === undefined || entry.state === "refused" ? "" : oneLine(briefly(entry.result), 300);
    node.classList.toggle("is-half", Boolean(entry.half));
    if (card.open) fill();
  };
  card.addEventListener("toggle", () => card.open && fill());
  update();
  return { node, update, slot };
}

/** Arguments or a result on a line: `city: "Lyon", limit: 3`. */
function briefly(value) {
  const whole = parsed(value);
  if (whole === null || typeof whole !== "object") return pretty(value);
  if (Array.isArray(whole)) return JSON.stringify(whole);
  return Object.entries(whole).map(([name, item]) => `${name}: ${JSON.stringify(item)}`).join(", ");
}

function noteOf(entry) {
  const brief = el("span", { class: "note-brief", text: oneLine(typeof entry.value === "string" ? entry.value : JSON.stringify(entry.value) ?? "", 200) });
  const body = el("div");
  const node = el("details", { class: "entry is-note" }, el("summary", {}, el("span", { class: "note-name", text: oneLine(entry.name, 80) }), brief), body);
  node.addEventListener("toggle", () => node.open && body.replaceChildren(valueOf(entry.value, "Value")));
  return { node, update() {} };
}

function errorOf(entry, acts) {
  const node = el("section", { class: "entry is-error" }, el("h3", { text: entry.lost ? "Connection lost" : "This went wrong" }), el("p", { dir: "auto", text: shown(entry.text) }), el("div", { class: "row" }, button(entry.lost ? "Connect again" : "Try again", acts.retry)));
  return { node, update() {} };
}

function stoppedOf() {
  return { node: el("div", { class: "entry quiet", text: "Stopped" }), update() {} };
}

function usageOf(entry) {
  const node = el("div", { class: "entry quiet is-usage" });
  const update = () => (node.textContent = usageText(entry));
  update();
  return { node, update };
}

function usageText({ usage, ms }) {
  const sum = (name) => usage.reduce((total, one) => total + (one[name] || 0), 0);
  const counts = [["inputTokens", "in"], ["outputTokens", "out"], ["reasoningTokens", "for reasoning"], ["cachedInputTokens", "from cache"]];
  const told = counts.filter(([name]) => sum(name)).map(([name, text]) => `${count(sum(name))} ${text}`);
  const total = told.length ? `tokens: ${told.join(", ")}` : sum("totalTokens") ? `${count(sum("totalTokens"))} tokens` : "";
  const models = [...new Set(usage.map((one) => one.model).filter(Boolean))].map((name) => oneLine(name, 60));
  return [...models, total, ms ? duration(ms) : ""].filter(Boolean).join(" · ");
}
