// What a conversation consists of, made from AG-UI events. Entries are plain data, so that they can be kept.
//
//   user       id text              text       id text open        reasoning  id text open
//   call       id name parent args state result                    note       name value
//   question   id reason message call tool args value schema expires run answer settled problem
//   error      text code            stopped                        usage      usage ms
//
// Entries made by a run have `run` and `step`. `half` marks what a failed step had said: it is no part of the history.

import { afterResult, entriesOf } from "./messages.js";

/** The reason of the question whether a call may run. */
export const APPROVAL = "tool_approval";

export class Transcript {
  /** `changed(entry)` is called for each entry that is new, is another, or has gone. */
  constructor(entries, changed = () => {}) {
    this.entries = entries;
    this.changed = changed;
    this.by = new Map();
    for (const entry of entries) this.by.set(key(entry.kind, entry.id), entry);
    const last = entries.findLast((entry) => entry.run);
    [this.run, this.step] = [last?.run ?? null, last?.step ?? null];
  }

  find(kind, id) {
    return this.by.get(key(kind, id));
  }

  add(entry) {
    this.entries.push(entry);
    this.by.set(key(entry.kind, entry.id), entry);
    this.changed(entry);
    return entry;
  }

  remove(entry) {
    const at = this.entries.indexOf(entry);
    if (at < 0) return;
    this.entries.splice(at, 1);
    this.by.delete(key(entry.kind, entry.id));
    this.changed(entry);
  }

  set(entry, changes) {
    if (!entry) return;
    Object.assign(entry, changes);
    this.changed(entry);
  }

  /** Take in one event of the run. */
  apply(event) {
    DOING[event.type]?.call(this, event);
  }

  /** Open questions, in the order of asking. */
  get questions() {
    return this.entries.filter((entry) => entry.kind === "question" && !entry.settled);
  }

  own(entry) {
    return this.add({ run: this.run, step: this.step, ...entry });
  }

  opened(kind, id) {
    return this.find(kind, id) || this.own({ kind, id, text: "", open: true });
  }

  more(kind, event) {
    const entry = this.opened(kind, event.messageId);
    this.set(entry, { text: entry.text + event.delta });
  }

  /** Close what is open, and mark what was not finished. */
  close({ half }) {
    for (const entry of this.entries) {
      if (entry.open) this.set(entry, { open: false });
      if (entry.kind === "call" && ["writing", "running"].includes(entry.state)) this.set(entry, { state: "cut" });
    }
    const step = this.entries.filter((entry) => entry.run === this.run && entry.step === this.step);
    if (half && !step.some((entry) => entry.kind === "call" && entry.resultId)) {
      for (const entry of step) if (["text", "reasoning", "call"].includes(entry.kind)) this.set(entry, { half: true });
    }
  }

  withdraw({ messageId, toolCallIds }) {
    this.remove(this.find("text", messageId));
    const thoughts = this.entries.filter((entry) => entry.kind === "reasoning" && entry.run === this.run && entry.step === this.step);
    for (const entry of thoughts) this.remove(entry); // those of this step led to what is withdrawn
    for (const id of Array.isArray(toolCallIds) ? toolCallIds : []) this.remove(this.find("call", id));
  }

  ask(asked, run) {
    const { tool, args, value } = asked.metadata || {};
    const shown = { reason: asked.reason, message: asked.message, call: asked.toolCallId, tool, args, value, schema: asked.responseSchema, expires: asked.expiresAt };
    if (this.find("question", asked.id)) this.remove(this.find("question", asked.id));
    this.own({ kind: "question", id: asked.id, ...shown, run, answer: null, settled: false });
    this.set(this.find("call", asked.toolCallId), { state: "asked" });
  }

  /** Take over all messages of the thread: what is here is corrected, what is not is added. */
  take(messages) {
    for (const told of entriesOf(messages)) {
      const here = this.find(told.kind, told.id);
      if (!here) this.add({ ...told, run: this.run });
      else if (told.kind === "call") this.set(here, { name: told.name, args: told.args, ...(!here.resultId && told.resultId ? told : {}) });
      else this.set(here, { text: told.text });
    }
  }

  /** Take off what the last run failed with, and `half` said where it is tried again. */
  clearFailure({ half }) {
    for (const entry of this.entries.filter((one) => one.kind === "error" || (half && one.half))) this.remove(entry);
  }
}

function key(kind, id) {
  return `${kind} ${id}`;
}

function tidy(value) {
  return value !== null && typeof value === "object" ? value : {};
}

const DOING = {
  __proto__: null,
  RUN_STARTED(event) {
    [this.run, this.step] = [event.runId, null];
  },
  STEP_STARTED(event) {
    this.step = event.stepName;
  },
  TEXT_MESSAGE_START(event) {
    this.opened("text", event.messageId);
  },
  TEXT_MESSAGE_CONTENT(event) {
    this.more("text", event);
  },
  TEXT_MESSAGE_END(event) {
    this.set(this.find("text", event.messageId), { open: false });
  },
  REASONING_MESSAGE_START(event) {
    this.opened("reasoning", event.messageId);
  },
  REASONING_MESSAGE_CONTENT(event) {
    this.more("reasoning", event);
  },
  REASONING_MESSAGE_END(event) {
    this.set(this.find("reasoning", event.messageId), { open: false });
  },
  TOOL_CALL_START(event) {
    this.own({ kind: "call", id: event.toolCallId, name: event.toolCallName, parent: event.parentMessageId, args: "", state: "writing", began: Date.now() });
  },
  TOOL_CALL_ARGS(event) {
    const entry = this.find("call", event.toolCallId);
    if (entry) this.set(entry, { args: entry.args + event.delta });
  },
  TOOL_CALL_END(event) {
    this.set(this.find("call", event.toolCallId), { state: "running" });
  },
  TOOL_CALL_RESULT(event) {
    const entry = this.find("call", event.toolCallId);
    const isError = event.metadata?.interpose?.isError === true;
    if (entry) this.set(entry, { state: entry.state === "refused" ? "refused" : afterResult(event.content, isError), result: event.content, resultId: event.messageId, step: this.step, run: this.run });
  },
  MESSAGES_SNAPSHOT(event) {
    this.take(event.messages);
  },
  CUSTOM(event) {
    if (event.name === "interpose.superseded") this.withdraw(tidy(event.value));
    else if (!event.name.startsWith("structured-output.")) this.own({ kind: "note", id: `${this.run} ${this.entries.length}`, name: event.name, value: event.value });
  },
  RUN_FINISHED(event) {
    this.close({ half: false });
    for (const asked of event.outcome?.type === "interrupt" ? event.outcome.interrupts : []) this.ask(asked, event.runId);
    if (event.usage?.length) this.own({ kind: "usage", id: event.runId, usage: event.usage });
  },
  RUN_ERROR(event) {
    const stopped = event.code === "aborted";
    this.close({ half: !stopped });
    this.own(stopped ? { kind: "stopped", id: this.run } : { kind: "error", id: this.run, text: event.message, code: event.code });
  },
};
