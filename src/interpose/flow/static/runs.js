// The list of runs, and the head of the one that is shown.

import { clock, count, duration, el, many, money, oneLine } from "./text.js";

const STATES = { running: "running", ok: "finished", error: "failed" };

/** What a run's state is called. */
export function stateOf(run) {
  const { status, outcome } = run.summary;
  if (outcome === "interrupted") return "paused";
  if (outcome === "aborted") return "aborted";
  if (outcome === "lost") return "end not seen";
  return STATES[status] || oneLine(status, 20);
}

function took(run, now) {
  const { duration_ms: ms, started_at: start } = run.summary;
  return ms !== null ? duration(ms) : run.running ? duration(Math.max(0, now - start * 1000)) : "";
}

function tokensOf(usage) {
  if (usage.total_tokens) return `${count(usage.total_tokens)} tok`;
  const sum = (usage.input_tokens || 0) + (usage.output_tokens || 0);
  return sum ? `${count(sum)} tok` : "";
}

/** When it began, and how it stands where the dot before it does not say so well. */
function when(run) {
  const { status, outcome, started_at: start } = run.summary;
  const plain = status === "running" || (status === "ok" && outcome !== "interrupted");
  return plain ? clock(start) : `${clock(start)} · ${stateOf(run)}`;
}

export class RunList {
  constructor(box, counter, { open }) {
    this.box = box;
    this.counter = counter;
    this.open = open;
    this.entries = new Map();
    box.addEventListener("click", (event) => {
      const entry = event.target.closest(".run");
      if (entry) this.open(entry.run);
    });
  }

  show(list, chosen, now) {
    const kept = new Set(list);
    for (const [run, entry] of this.entries) {
      if (kept.has(run)) continue;
      entry.remove();
      this.entries.delete(run);
    }
    list.forEach((run, index) => {
      const entry = this.entries.get(run) || this.added(run);
      if (this.box.children[index] !== entry) this.box.insertBefore(entry, this.box.children[index] || null);
      this.fill(entry, run, run === chosen, now);
    });
    this.counter.textContent = list.length ? String(list.length) : "";
    this.box.classList.toggle("is-empty", !list.length);
    this.box.setAttribute("aria-activedescendant", chosen ? this.entries.get(chosen)?.id || "" : "");
  }

  added(run) {
    const entry = el("div", { class: "run", role: "option", id: `r-${run.id}` },
      el("span", { class: "dot" }), el("span", { class: "run-name" }), el("span", { class: "run-took" }), el("span", { class: "run-when" }), el("span", { class: "run-size" }));
    entry.run = run;
    this.entries.set(run, entry);
    return entry;
  }

  fill(entry, run, chosen, now) {
    const { summary } = run;
    const same = entry.summary === summary && entry.chosen === chosen && entry.gone === run.gone;
    if (same && !run.running) return;
    [entry.summary, entry.chosen, entry.gone] = [summary, chosen, run.gone];
    const name = `run is-${summary.outcome === "interrupted" ? "paused" : summary.status}${chosen ? " is-selected" : ""}${run.gone ? " is-gone" : ""}`;
    if (entry.className !== name) {
      entry.className = name;
      entry.setAttribute("aria-selected", chosen);
      entry.title = run.gone ? "No longer kept by the app" : stateOf(run);
    }
    const texts = [oneLine(summary.name, 80) || "run", took(run, now), when(run), many(summary.nodes, "node")];
    texts.forEach((text, index) => {
      if (entry.children[index + 1].textContent !== text) entry.children[index + 1].textContent = text;
    });
  }
}

/** Shows name, state and figures of a run; changes only what changed. */
export class RunHead {
  constructor(box) {
    this.box = box;
  }

  show(run, now) {
    const facts = run ? this.facts(run, now) : [];
    const key = JSON.stringify([run?.id, run?.summary.name, run && stateOf(run), facts]);
    if (key === this.key) return;
    this.key = key;
    if (!run) {
      this.box.replaceChildren();
      return;
    }
    this.box.replaceChildren(
      el("h1", { text: oneLine(run.summary.name, 80) || "run" }),
      el("span", { class: `state is-${run.summary.outcome === "interrupted" ? "paused" : run.summary.status}`, text: stateOf(run) }),
      el("ul", { class: "figures" }, facts.map(([name, value]) => el("li", {}, el("b", { text: value }), ` ${name}`))),
    );
  }

  facts(run, now) {
    const { summary } = run;
    const { usage } = summary;
    return [
      ["", took(run, now)],
      [summary.steps === 1 ? "step" : "steps", summary.steps ? count(summary.steps) : ""],
      [summary.nodes === 1 ? "node" : "nodes", count(summary.nodes)],
      [summary.errors === 1 ? "error" : "errors", summary.errors ? count(summary.errors) : ""],
      ["", tokensOf(usage)],
      ["", usage.cost_usd ? money(usage.cost_usd) : ""],
      ["not kept", summary.left_out ? many(summary.left_out, "node") : ""],
    ].filter(([, value]) => value);
  }
}
