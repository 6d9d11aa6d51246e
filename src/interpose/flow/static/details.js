// All about the chosen node. Its content is asked for when it is chosen, and again when the node ends.

import { callOf, messageOf, valueOf } from "./content.js";
import { clock, count, duration, el, icon, many, money, oneLine, shown } from "./text.js";

const REMEMBERED = 40;
const WORDS = { ok: "ok", error: "failed", running: "running" };

export class Details {
  /** `choose(node)` is called for a node that the details refer to. */
  constructor(box, { choose }) {
    this.box = box;
    this.choose = choose;
    this.whole = new Map();
    this.key = "";
  }

  /** Show a node, and return whether that was to do. */
  show(run, node) {
    const key = run && node ? `${run.id} ${node.id} ${node.version} ${run.gone}` : run ? "none" : "";
    if (key === this.key) return false;
    const same = this.node === node;
    [this.key, this.run, this.node] = [key, run, node];
    if (!node) {
      this.box.replaceChildren(el("p", { class: "empty", text: run ? "Choose a node to see what went in and what came out." : "" }));
      return true;
    }
    const event = this.known(run, node);
    if (event) this.fill(run, node, event, same);
    else {
      if (!same) this.fill(run, node, { ...node.event, waiting: true }, false);
      this.ask(run, node, key);
    }
    return true;
  }

  known(run, node) {
    if (!node.event.left_out) return node.event;
    return this.whole.get(`${run.id} ${node.seq}`);
  }

  async ask(run, node, key) {
    const asked = `${run.id} ${node.seq}`;
    let event;
    try {
      const answer = await fetch(`api/event?run=${encodeURIComponent(run.id)}&seq=${node.seq}`);
      event = answer.ok ? await answer.json() : { ...node.event, dropped: true };
    } catch {
      event = { ...node.event, dropped: true };
    }
    if (!event.dropped) this.whole.set(asked, event);
    if (this.whole.size > REMEMBERED) this.whole.delete(this.whole.keys().next().value);
    if (this.key === key) this.fill(run, node, event, true);
  }

  fill(run, node, event, keepPlace) {
    const at = keepPlace ? this.box.scrollTop : 0;
    this.box.replaceChildren(...[
      this.head(node, event),
      this.path(node),
      event.error ? section("Error", el("pre", { class: "text is-error", dir: "auto", text: shown(event.error) })) : null,
      facts(run, node, event),
      ...this.contents(node, event),
      Object.keys(event.meta || {}).length ? section("Meta", valueOf(event.meta)) : null,
      event.changes && event.changes.length ? section(`Changed by middleware · ${event.changes.length}`, el("ol", { class: "changes" }, event.changes.map(changeOf))) : null,
      event.failures && event.failures.length ? section("Failed attempts", valueOf(event.failures)) : null,
      raw(event),
    ].filter(Boolean));
    if (at || !keepPlace) this.box.scrollTop = at;
  }

  head(node, event) {
    return el("div", { class: `details-head kind-${node.kind}` },
      el("span", { class: "card-icon" }, icon(node.kind)),
      el("div", { class: "details-title" }, el("h2", { text: oneLine(node.name, 200) }), el("span", { class: "kind-name", text: event.call_class && event.call_class !== "agent" ? `${node.kind} · ${oneLine(event.call_class, 40)}` : node.kind })),
      el("span", { class: `state is-${node.status}`, text: event.outcome === "interrupted" ? "paused" : WORDS[node.status] }));
  }

  path(node) {
    const above = [];
    for (let one = node.parent; one; one = one.parent) above.unshift(one);
    if (!above.length) return null;
    return el("nav", { class: "path", "aria-label": "Above" }, above.map((one) => el("button", { type: "button", text: oneLine(one.name, 40), onclick: () => this.choose(one) })));
  }

  contents(node, event) {
    if (event.waiting) return [el("p", { class: "note", text: "…" })];
    if (event.dropped) return [el("p", { class: "note", text: "Its content is not kept any more: newer content needed the room." })];
    if (event.too_large) return [el("p", { class: "note", text: `Its content is too large to be kept (${count(event.too_large)} bytes).` })];
    const content = event.content;
    if (node.kind === "step" && !content) return [];
    if (content === null || content === undefined) return [el("p", { class: "note", text: node.status === "running" ? "Still running." : "No content was recorded." })];
    if (typeof content !== "object" || !("in" in content)) return [section("In", insideOf(node, content))];
    return [
      content.in === null || content.in === undefined ? null : section("In", insideOf(node, content.in)),
      "out" in content && content.out !== null ? section("Out", outsideOf(node, content.out)) : null,
      node.status === "running" ? el("p", { class: "note", text: "Still running." }) : null,
    ];
  }
}

/** What went in: of a model the conversation first, of a tool its arguments. */
function insideOf(node, value) {
  if (value === null || typeof value !== "object") return valueOf(value);
  if (node.kind === "tool" && "args" in value && typeof value.args === "object") return valueOf(value.args);
  if (Array.isArray(value.messages)) {
    const { messages, instructions, ...rest } = value;
    const spoken = instructions ? [{ role: "system", text: instructions }, ...messages] : messages;
    return el("div", {}, valueOf(spoken), Object.keys(rest).length ? el("details", { class: "rest" }, el("summary", { text: `Also: ${oneLine(Object.keys(rest).join(", "), 60)}` }), valueOf(rest, 1)) : null);
  }
  return valueOf(value);
}

function outsideOf(node, value) {
  if (value === null || typeof value !== "object") return valueOf(value);
  if (node.kind === "tool" && "data" in value) return valueOf(value.data);
  if (node.kind === "model" && value.message && typeof value.message === "object") return messageOf({ role: "assistant", ...value.message });
  if (typeof value.text === "string") return messageOf({ role: "assistant", ...value });
  return value.name && (value.args || value.arguments) ? callOf(value) : valueOf(value);
}

function facts(run, node, event) {
  const usage = event.usage || {};
  const rows = [
    ["started", clock(node.start / 1000)],
    ["after", node.parent ? duration(node.start - run.start) : ""],
    ["took", node.end === null ? "" : duration(node.end - node.start)],
    ["provider", event.provider],
    ["tokens", tokens(usage)],
    ["cache", [usage.cache_read_tokens ? `${count(usage.cache_read_tokens)} read` : "", usage.cache_write_tokens ? `${count(usage.cache_write_tokens)} written` : ""].filter(Boolean).join(", ")],
    ["reasoning", usage.reasoning_tokens ? count(usage.reasoning_tokens) : ""],
    ["cost", usage.cost_usd ? money(usage.cost_usd) : ""],
    ["attempts", event.attempts > 1 ? String(event.attempts) : ""],
    ["made by", event.made_by],
    ["withdrawn", event.superseded ? many(event.superseded, "time") : ""],
    ["outcome", ["finished", "failed"].includes(event.outcome) ? "" : event.outcome],
    ["finish reason", event.finish_reason],
    ["thread", node.kind === "run" ? event.thread_id : ""],
    ["resumed from", event.resumed_from],
    ["run", node.kind === "run" ? event.run_id : ""],
  ].filter(([, value]) => value);
  return el("dl", { class: "facts" }, rows.map(([name, value]) => el("div", { class: value.length > 18 ? "is-wide" : null }, el("dt", { text: name }), el("dd", { text: oneLine(value, 120) }))));
}

function tokens(usage) {
  const { input_tokens: given, output_tokens: made, total_tokens: total } = usage;
  const parts = [given === undefined ? "" : `${count(given)} in`, made === undefined ? "" : `${count(made)} out`].filter(Boolean);
  return parts.length ? parts.join(", ") : total ? count(total) : "";
}

/** One change of provenance: who, in which hook, which field, from what to what. */
function changeOf(change) {
  return el("li", { class: "change" },
    el("div", { class: "change-head" }, el("strong", { text: oneLine(change.middleware ?? "?", 60) }), change.hook ? el("span", { class: "change-hook", text: oneLine(change.hook, 40) }) : null, el("code", { text: oneLine(change.field ?? "?", 60) })),
    el("div", { class: "change-pair" }, pairOf(change.old ?? null, change.new ?? null)));
}

/** What was there and what is: of two texts of several lines, those that differ, and two lines on either side. */
function pairOf(old, now) {
  const was = (value) => el("div", { class: "was" }, el("span", { class: "visually-hidden", text: "was " }), valueOf(value, 1));
  const is = (value) => el("div", { class: "is" }, el("span", { class: "visually-hidden", text: "is " }), valueOf(value, 1));
  if (typeof old !== "string" || typeof now !== "string" || !`${old}${now}`.includes("\n")) return [was(old), is(now)];
  const [before, after] = [old.split("\n"), now.split("\n")];
  const shorter = Math.min(before.length, after.length);
  let [head, tail] = [0, 0];
  while (head < shorter && before[head] === after[head]) head++;
  while (tail < shorter - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const same = (lines) => lines.length && el("div", { class: "same" }, valueOf(lines.join("\n"), 1));
  const gone = before.slice(head, before.length - tail);
  const come = after.slice(head, after.length - tail);
  return [
    same([...(head > 2 ? ["…"] : []), ...before.slice(Math.max(head - 2, 0), head)]),
    gone.length && was(gone.join("\n")),
    come.length && is(come.join("\n")),
    same([...before.slice(before.length - tail).slice(0, 2), ...(tail > 2 ? ["…"] : [])]),
  ].filter(Boolean);
}

function raw(event) {
  const text = el("pre", { class: "text is-raw" });
  const made = el("details", { class: "rest" }, el("summary", { text: "JSON" }), text);
  made.addEventListener("toggle", () => {
    if (made.open) text.textContent = shown(JSON.stringify(event, null, 2));
  });
  return made;
}

function section(title, ...children) {
  return el("section", { class: "part" }, el("h3", { text: title }), ...children);
}
