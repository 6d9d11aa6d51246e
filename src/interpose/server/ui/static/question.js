// What a paused run asks: whether a call may run, or anything else. An answer is `{ wire, words, args }`.

import { button, clock, el, oneLine, shown } from "./text.js";
import { APPROVAL } from "./transcript.js";
import { pretty, valueOf } from "./value.js";

const AGAIN = { "": "every time", arguments: "not for these arguments", tool: "not for this tool" };
let made = 0;

/** Return `{ node, update }` for a question; `answer(question, answer)` takes what the person says, or null to take it back. */
export function questionOf(question, answer) {
  const id = `q${(made += 1)}`;
  const isApproval = question.reason === APPROVAL && Boolean(question.call);
  const title = el("h3", { id: `${id}-title`, text: shown(question.message || (isApproval ? `Run ${question.tool ?? "this tool"}?` : question.reason)) });
  const problem = el("p", { class: "problem", role: "alert", id: `${id}-problem`, hidden: true });
  const form = el("div", { class: "question-form" });
  const said = el("div", { class: "question-said", hidden: true });
  const node = el("section", { class: "question", tabindex: "-1", "aria-labelledby": `${id}-title` }, el("div", { class: "question-head" }, el("span", { class: "state is-paused", text: isApproval ? "needs approval" : "question" }), deadline(question)), title, problem, form, said);
  const say = (wire, words, args) => answer(question, { wire, words, args });
  const parts = { id, question, form, problem, say };
  const first = isApproval ? () => approval(parts) : () => open(parts);
  first();
  const update = () => {
    const given = question.answer;
    tell(problem, question.problem);
    form.hidden = Boolean(given) || question.settled;
    said.hidden = !given;
    said.replaceChildren(el("span", { text: given ? oneLine(given.words, 300) : "" }));
    if (given && !question.settled) said.append(button("Change", () => answer(question, null), "small plain"));
    node.classList.toggle("is-settled", question.settled);
    node.classList.toggle("is-answered", Boolean(given));
    node.querySelector(".question-head").hidden = Boolean(given) || question.settled;
  };
  update();
  return { node, update };
}

function deadline({ expires }) {
  const until = Date.parse(expires ?? "");
  return Number.isNaN(until) ? null : el("span", { class: "faint", text: `until ${clock(until)}` });
}

function tell(problem, text) {
  problem.hidden = !text;
  problem.textContent = shown(text || "");
}

/** Asked for a call: the arguments that it would run with, and three ways to go on. */
function approval(parts) {
  const { question, form, say, problem } = parts;
  const again = el("select", { "aria-label": "Ask again in this conversation" }, Object.entries(AGAIN).map(([value, text]) => el("option", { value, text })));
  const approve = () => say(approved(again.value), `Approved${again.value ? `; ask again ${AGAIN[again.value]}` : ""}`);
  const editing = () => edit(parts, again);
  tell(problem, question.problem);
  const text = pretty(question.args ?? {});
  const args = text === "{}" ? el("p", { class: "faint", text: "without arguments" }) : valueOf(question.args, "Arguments");
  const buttons = el("div", { class: "row" }, button("Approve", approve, "primary"), button("Reject…", () => reject(parts)), button("Edit…", editing), el("label", { class: "again" }, el("span", { text: "Ask again" }), again));
  form.replaceChildren(question.value === undefined ? "" : valueOf(question.value, "What it is about"), args, buttons);
}

function approved(always, args) {
  return { status: "resolved", payload: { approved: true, ...(always ? { always } : {}), ...(args ? { editedArgs: args } : {}) } };
}

function reject(parts) {
  const { id, form, say } = parts;
  const reason = el("input", { id: `${id}-reason`, type: "text", autocomplete: "off", placeholder: "optional: the model reads it" });
  const send = () => say({ status: "resolved", payload: { approved: false, reason: reason.value.trim() } }, `Rejected${reason.value.trim() ? `: ${reason.value.trim()}` : ""}`);
  reason.addEventListener("keydown", (event) => event.key === "Enter" && !event.isComposing && send());
  form.replaceChildren(el("label", { for: `${id}-reason`, text: "Why not?" }), reason, el("div", { class: "row" }, button("Reject", send, "danger"), back(parts)));
  reason.focus();
}

function edit(parts, again) {
  const { id, question, form, say, problem } = parts;
  const field = textArea(`${id}-args`, pretty(question.args ?? {}), problem);
  const send = () => {
    const [args, wrong] = parsed(field.value);
    const text = wrong ?? (args === null || typeof args !== "object" || Array.isArray(args) ? "Arguments are an object, in braces: {…}" : null);
    invalid(field, problem, text);
    if (!text) say(approved(again.value, args), `Approved with changes: ${JSON.stringify(args)}`, args);
  };
  field.addEventListener("input", () => {
    if (field.getAttribute("aria-invalid")) invalid(field, problem, parsed(field.value)[1]);
  });
  submits(field, send);
  form.replaceChildren(el("label", { for: `${id}-args`, text: "Arguments, as JSON" }), field, el("div", { class: "row" }, button("Approve with changes", send, "primary"), back(parts)));
  field.focus();
}

function back(parts) {
  return button("Back", () => {
    tell(parts.problem, null);
    approval(parts);
    parts.form.querySelector("button").focus();
  });
}

/** Asked for anything: yes and no, a choice where the question names some, a text, or JSON. */
function open(parts) {
  const { id, question, form, say, problem } = parts;
  const give = (payload) => say({ status: "resolved", payload }, typeof payload === "string" ? payload : payload === true ? "Yes" : payload === false ? "No" : JSON.stringify(payload));
  const choices = Array.isArray(question.schema?.enum) ? question.schema.enum.slice(0, 12) : null;
  const onlyBoolean = question.schema?.type === "boolean";
  const asJson = el("input", { type: "checkbox", id: `${id}-json`, checked: Boolean(question.schema && question.schema.type !== "string") });
  const field = textArea(`${id}-text`, "", problem);
  const send = () => {
    const [payload, wrong] = asJson.checked ? parsed(field.value) : [field.value, field.value.trim() ? null : "Write an answer, or choose one of the buttons"];
    invalid(field, problem, wrong);
    if (!wrong) give(payload);
  };
  submits(field, send);
  const withdraw = button("Withdraw", () => say({ status: "cancelled" }, "Withdrawn"), "plain");
  withdraw.title = "Answer nothing; the run goes on without it";
  const quick = choices ? choices.map((one) => button(oneLine(typeof one === "string" ? one : JSON.stringify(one), 60), () => give(one))) : [button("Yes", () => give(true)), button("No", () => give(false))];
  const writing = [el("label", { for: `${id}-text`, text: "Your answer" }), field];
  const sending = [button("Answer", send, "primary"), el("label", { class: "check" }, asJson, el("span", { text: "as JSON" }))];
  const closed = choices || onlyBoolean;
  form.replaceChildren(question.value === undefined ? "" : valueOf(question.value, "What it is about"), ...(closed ? [] : writing), el("div", { class: "row" }, ...(closed ? [] : sending), ...quick, withdraw));
}

function textArea(id, value, problem) {
  const field = el("textarea", { id, spellcheck: "false", autocapitalize: "off", rows: String(Math.min(12, Math.max(2, value.split("\n").length))), "aria-describedby": problem.id });
  field.value = value;
  return field;
}

function submits(field, send) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    send();
  });
}

function invalid(field, problem, text) {
  if (text) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
  tell(problem, text);
}

function parsed(text) {
  try {
    return [JSON.parse(text), null];
  } catch (error) {
    return [null, `This is no JSON: ${error.message}`];
  }
}
