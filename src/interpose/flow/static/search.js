// Searching a run: names and errors here, what went in and came out in the app.

import { shown } from "./text.js";

const WAIT_MS = 180;

export class Search {
  /** `changed` is called when there are other matches. */
  constructor(changed) {
    this.changed = changed;
    this.text = "";
    this.inside = [];
    this.matches = null;
  }

  /** Look for a text in a run; an empty one ends the search. */
  look(run, text) {
    const other = text !== this.text || run !== this.run;
    [this.run, this.text] = [run, text];
    if (other) this.inside = [];
    this.match();
    clearTimeout(this.timer);
    if (run && text && other) this.timer = setTimeout(() => this.ask(), WAIT_MS);
  }

  /** Look again, since the run grew. */
  again() {
    if (!this.text || !this.run || this.seen === this.run.version) return;
    this.match();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), 4 * WAIT_MS);
  }

  match() {
    const { run } = this;
    this.seen = run?.version;
    if (!run || !this.text) {
      this.matches = null;
      this.changed();
      return;
    }
    const wanted = this.text.toLowerCase();
    const found = new Set();
    for (const node of run.nodes.values()) if (speaks(node).includes(wanted)) found.add(node);
    for (const seq of this.inside) if (run.bySeq[seq]) found.add(run.bySeq[seq]);
    this.matches = found;
    this.changed();
  }

  async ask() {
    const { run, text } = this;
    try {
      const answer = await fetch(`api/search?run=${encodeURIComponent(run.id)}&q=${encodeURIComponent(text)}`);
      if (!answer.ok) return;
      const { seqs } = await answer.json();
      if (run !== this.run || text !== this.text) return;
      this.inside = seqs;
      this.match();
    } catch {
      // the app is away; names are still searched
    }
  }

  /** Return the match after (1) or before (-1) a node, round the end. */
  next(node, by, rows) {
    const found = rows.filter((row) => this.matches?.has(row));
    if (!found.length) return null;
    const at = found.indexOf(node);
    if (at >= 0) return found[(at + by + found.length) % found.length];
    const place = rows.indexOf(node);
    const after = found.findIndex((row) => rows.indexOf(row) > place);
    if (by > 0) return found[after >= 0 ? after : 0];
    return found[(after >= 0 ? after - 1 + found.length : found.length - 1) % found.length];
  }
}

function speaks(node) {
  const { event } = node;
  return shown(`${node.kind} ${node.name} ${node.status} ${event.error || ""} ${event.outcome || ""} ${event.made_by || ""} ${node.id} ${event.run_id}`).toLowerCase();
}
