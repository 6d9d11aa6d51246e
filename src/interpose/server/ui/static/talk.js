// One conversation that goes on: it sends, reads, reads on after a lost connection, asks to stop, answers.

import { Refused, events } from "./api.js";
import { messagesOf } from "./messages.js";
import { newId } from "./text.js";
import { APPROVAL, Transcript } from "./transcript.js";

const TRIES = 8;
const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 8000;
const UNHEARD = "The server did not get this.";
const FORGOTTEN = "The server does not know this run any more; it may have been started anew meanwhile.";
const ENDS = ["RUN_FINISHED", "RUN_ERROR"];

export class Talk {
  /** `kept` is plain data: `{ id, agent, title, at, entries, run, after }`. `told(what, entry)` hears of changes. */
  constructor(api, kept, told) {
    [this.api, this.kept, this.told] = [api, kept, told];
    this.transcript = new Transcript(kept.entries, (entry) => told("entry", entry));
    this.state = "idle"; // or "running", "lost", "stopping"
    this.left = null;
  }

  get busy() {
    return this.state !== "idle";
  }

  /** Questions that were answered, but not yet to a run that began. */
  get answered() {
    return this.transcript.questions.filter((one) => one.answer);
  }

  /** What the person is to do next: "answer", "wait" or "write". */
  get turn() {
    if (this.busy) return "wait";
    return this.transcript.questions.length ? "answer" : "write";
  }

  send(text) {
    if (this.turn !== "write") return null;
    if (!this.kept.title) this.kept.title = text.slice(0, 120);
    this.transcript.clearFailure({ half: false });
    this.transcript.add({ kind: "user", id: newId("msg"), text });
    return this.begin({});
  }

  retry() {
    if (this.busy) return null;
    const failed = this.transcript.entries.findLast((entry) => entry.kind === "error");
    this.transcript.clearFailure({ half: !failed?.lost });
    if (failed?.lost) return this.readOn();
    return this.begin({});
  }

  /** Note an answer; once all questions of the run have one, they are sent. */
  answer(question, answer) {
    this.transcript.set(question, { answer, problem: null });
    const open = this.transcript.questions;
    this.told("state");
    if (!answer || this.busy || open.some((one) => !one.answer)) return null;
    const resume = open.map((one) => ({ interruptId: one.id, ...one.answer.wire }));
    return this.begin({ resume, parentRunId: open[0].run });
  }

  /** Take over what the server keeps of this thread. */
  sync({ messages, runs, interrupts }) {
    if (this.busy) return;
    if (!this.kept.isCut) this.transcript.take(messages);
    const open = new Map(interrupts.flatMap((run) => run.interrupts.map((asked) => [asked.id, { asked, run: run.runId }])));
    for (const one of this.transcript.questions) if (!open.has(one.id)) this.transcript.set(one, { settled: true, answer: { words: "Not open any more" } });
    for (const [id, { asked, run }] of open) {
      const here = this.transcript.find("question", id);
      if (!here || (here.settled && !here.left)) this.transcript.ask(asked, run);
    }
    if (!runs.length) return;
    [this.kept.run, this.kept.after] = [runs[0], null];
    this.readOn();
  }

  /** Leave what is asked without an answer; the next message goes on without it. */
  leaveQuestions() {
    if (this.busy) return;
    for (const one of this.transcript.questions) {
      this.transcript.set(one, { settled: true, left: true, problem: null, answer: { words: "Left without an answer" } });
      this.transcript.set(this.transcript.find("call", one.call), { state: "refused" });
    }
    this.told("end", { type: "LEFT" });
  }

  /** Read on in the run that was going on when the page was left. */
  readOn() {
    if (!this.kept.run || this.busy) return null;
    return this.follow(() => this.attach(), false);
  }

  async stop() {
    if (!this.busy || !this.kept.run || this.state === "stopping") return;
    this.to("stopping");
    try {
      await this.api.cancel(this.kept.agent, this.kept.run);
    } catch (error) {
      if (error instanceof Refused && error.code === "no_run") return this.busy && this.to("running"); // not begun, or over
      this.fail(`It could not be stopped. ${words(error)}`, { lost: true });
      this.leave();
    }
  }

  /** Stop reading; the run goes on. */
  leave() {
    this.left?.abort();
  }

  begin(more) {
    const { id: threadId, agent } = this.kept;
    const runId = newId("run");
    [this.kept.run, this.kept.after, this.kept.at] = [runId, null, Date.now()];
    const input = { threadId, runId, messages: messagesOf(this.kept.entries), ...more };
    return this.follow(() => this.api.run(agent, input, this.left.signal), true);
  }

  attach() {
    return this.api.attach(this.kept.agent, this.kept.run, this.kept.after, this.left.signal);
  }

  async follow(open, isNew) {
    const left = (this.left = new AbortController());
    this.started = !isNew;
    this.began = Date.now();
    this.to("running");
    try {
      await this.readAll(open, left);
    } catch (error) {
      if (left.signal.aborted) return;
      this.refused(error);
    } finally {
      if (this.left === left) {
        this.left = null;
        this.to("idle");
      }
    }
  }

  /** Read until the run's last event, through as many connections as it takes. */
  async readAll(open, left) {
    let tries = 0;
    for (;;) {
      try {
        for await (const { id, event } of events(await open())) {
          if (left.signal.aborted) return;
          tries = 0;
          if (this.state === "lost") this.to("running");
          this.take(id, event);
          if (ENDS.includes(event.type)) return;
        }
      } catch (error) {
        const gone = error instanceof Refused && (tries === 0 || (error.status < 500 && error.status !== 429));
        if (left.signal.aborted || gone || error instanceof SyntaxError) throw error;
        if (tries >= TRIES) throw error;
      }
      if (tries++ >= TRIES) throw new Lost();
      this.to(this.state === "stopping" ? "stopping" : "lost");
      await pause(Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1)), left.signal);
      open = () => this.attach();
    }
  }

  take(id, event) {
    if (id !== null) this.kept.after = id;
    this.started = true;
    if (event.type === "RUN_STARTED") {
      this.kept.run = event.runId;
      for (const one of this.answered) this.settle(one);
    }
    this.transcript.apply(event);
    if (!ENDS.includes(event.type)) return;
    const usage = this.transcript.find("usage", event.runId ?? this.kept.run);
    if (usage) this.transcript.set(usage, { ms: Date.now() - this.began });
    [this.kept.run, this.kept.after] = [null, null];
    this.told("end", event);
  }

  settle(question) {
    const { wire, args } = question.answer;
    this.transcript.set(question, { settled: true });
    const call = this.transcript.find("call", question.call);
    if (!call || call.state !== "asked") return;
    const isRefused = wire.status === "cancelled" || (question.reason === APPROVAL && !wire.payload.approved);
    this.transcript.set(call, { state: isRefused ? "refused" : "running", ...(args ? { args: JSON.stringify(args), edited: true } : {}) });
  }

  /** Nothing more will come of this run: say why, and leave open what was asked. */
  refused(error) {
    const [run, asked] = [this.kept.run, this.answered];
    const known = new Map(error instanceof Refused ? error.problems : []);
    const lost = this.started && !(error instanceof Refused);
    const text = error.code === "no_run" ? (this.started ? FORGOTTEN : UNHEARD) : words(error);
    const wrong = asked.filter((one) => known.has(one.id)); // the other answers stand, and are sent again with these
    for (const one of wrong.length ? wrong : asked) this.transcript.set(one, { answer: null, problem: known.get(one.id) ?? text });
    if (this.started && !lost) this.transcript.close({ half: true });
    if (!asked.length) this.fail(text, { lost });
    this.kept.run = lost ? run : null;
    this.told("end", { type: "RUN_ERROR", message: text });
  }

  fail(text, more = {}) {
    const former = this.transcript.find("error", "own");
    if (former) this.transcript.remove(former);
    this.transcript.add({ kind: "error", id: "own", text, ...more });
  }

  to(state) {
    this.state = state;
    this.told("state");
  }
}

class Lost extends Error {
  constructor() {
    super("the connection was lost");
  }
}

function words(error) {
  if (error instanceof Refused) return error.message;
  if (error instanceof SyntaxError) return `The server sent what is no event: ${error.message}`;
  return "The server cannot be reached. The run may still be going on there.";
}

/** Wait, or less where the browser is online again. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
