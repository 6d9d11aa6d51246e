// What this page knows of the runs: their summaries, and the nodes of those that were looked at.

/** One run: its summary, and, once `loaded`, its tree of nodes as far as event number `next`. */
export class Run {
  constructor(summary) {
    this.id = summary.id;
    this.summary = summary;
    this.loaded = false;
    this.fetching = false;
    this.gone = false;
    this.reset();
  }

  reset() {
    this.next = 0;
    this.nodes = new Map();
    this.bySeq = [];
    this.roots = [];
    this.latest = null;
    this.endedAt = 0;
    this.folded = new Set();
    this.version = 0;
  }

  get running() {
    return this.summary.status === "running";
  }

  /** When the run began, in ms. */
  get start() {
    return this.roots.length ? this.roots[0].start : this.summary.started_at * 1000;
  }

  /** When it ended; now, or the last that was heard of it, where it did not. */
  end(now) {
    if (this.summary.duration_ms !== null) return this.start + this.summary.duration_ms;
    return this.running ? Math.max(now, this.endedAt) : this.endedAt;
  }

  /** Take one event, and return whether it is the next one. */
  apply(event) {
    if (event.seq !== this.next) return event.seq < this.next;
    this.next += 1;
    this.version += 1;
    let node = this.nodes.get(event.id);
    if (!node) node = this.added(event);
    this.bySeq[event.seq] = node;
    if (event.phase === "end") this.ended(node, event);
    node.seq = event.seq;
    node.event = event;
    node.version += 1;
    return true;
  }

  added(event) {
    const node = {
      id: event.id,
      kind: event.kind,
      name: event.name,
      parent: this.nodes.get(event.parent_id) || null,
      children: [],
      start: event.started_at * 1000,
      end: null,
      status: "running",
      order: this.nodes.size,
      version: 0,
      event,
      seq: event.seq,
    };
    node.depth = node.parent ? node.parent.depth + 1 : 0;
    this.nodes.set(node.id, node);
    (node.parent ? node.parent.children : this.roots).push(node);
    this.latest = node;
    this.endedAt = Math.max(this.endedAt, node.start);
    return node;
  }

  ended(node, event) {
    node.status = event.status === "error" ? "error" : "ok";
    node.name = event.name;
    node.end = node.start + (event.duration_ms || 0);
    this.endedAt = Math.max(this.endedAt, node.end);
  }

  /** Return the nodes from top to bottom, without those that are folded away. */
  rows() {
    const rows = [];
    const stack = [...this.roots].reverse();
    while (stack.length) {
      const node = stack.pop();
      rows.push(node);
      if (!this.folded.has(node.id)) for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i]);
    }
    return rows;
  }
}

/** Bring a summary up to an event that came after it. */
function counted({ id, summary }, event) {
  summary.events = event.seq + 1;
  if (event.phase === "start") {
    summary.nodes += 1;
    if (event.kind === "step" && event.run_id === id) summary.steps += 1;
  } else {
    if (event.status === "error") summary.errors += 1;
    if (event.usage && event.kind === "model") summary.usage = sumOf(summary.usage, event.usage);
  }
}

function sumOf(one, other) {
  const names = Object.keys({ ...one, ...other });
  return Object.fromEntries(names.map((name) => [name, (one[name] || 0) + (other[name] || 0)]));
}

/** All runs, newest first in `list`. `changed` is called after each change. */
export class Store {
  constructor(changed) {
    this.runs = new Map();
    this.list = [];
    this.changed = changed;
  }

  /** Take what the stream begins with: it is the truth about which runs there are. */
  snapshot({ runs, current, events }) {
    const known = this.runs;
    this.runs = new Map();
    for (const summary of runs) this.runs.set(summary.id, this.taken(known.get(summary.id), summary));
    for (const run of known.values()) {
      if (this.runs.has(run.id) || !run.loaded) continue;
      run.gone = true; // the app was started anew, or gave it up; what was seen of it stays
      this.runs.set(run.id, run);
    }
    this.list = [...this.runs.values()];
    const run = this.runs.get(current);
    if (run) {
      run.loaded = true;
      for (const event of events) run.apply(event);
    }
    for (const one of this.list) if (one.loaded && !one.gone && one.next < one.summary.events) this.load(one);
    this.changed("runs");
  }

  taken(run, summary) {
    if (!run) return new Run(summary);
    run.summary = summary;
    run.gone = false;
    return run;
  }

  /** Take a changed summary. */
  run(summary) {
    const run = this.runs.get(summary.id);
    if (run) {
      run.summary = summary;
      run.version += 1;
    } else {
      const added = new Run(summary);
      this.runs.set(summary.id, added);
      this.list.unshift(added);
    }
    this.changed("runs");
  }

  /** Take one event; where some before it are missing, they are asked for. */
  event(event) {
    const run = this.runs.get(event.run);
    if (!run) return;
    if (event.seq >= run.summary.events) counted(run, event);
    if (run.loaded && !run.apply(event)) this.load(run);
    this.changed("event", run);
  }

  gone({ id }) {
    const run = this.runs.get(id);
    if (!run) return;
    run.gone = true;
    if (!run.loaded) {
      this.runs.delete(id);
      this.list = this.list.filter((one) => one !== run);
    }
    this.changed("runs");
  }

  /** Ask for the events of a run that are not here yet. */
  async load(run) {
    if (run.fetching || run.gone) return;
    run.fetching = true;
    try {
      const answer = await fetch(`api/runs/${encodeURIComponent(run.id)}?light&after=${run.next - 1}`);
      if (answer.status === 404) this.gone(run);
      if (answer.ok) {
        const { run: summary, events } = await answer.json();
        run.loaded = true;
        if (summary.events >= run.summary.events) run.summary = summary; // else the stream was quicker than this answer
        for (const event of events) run.apply(event);
      }
    } catch {
      // the app is away; the stream says so, and its next snapshot asks again
    } finally {
      run.fetching = false;
    }
    this.changed("runs");
    if (run.loaded && !run.gone && run.next < run.summary.events) setTimeout(() => this.load(run), 250);
  }
}
