// Values as a person reads them: messages as messages, texts as texts, the rest as a tree that opens.

import { el, many, oneLine, shown } from "./text.js";

const LONG = 3000;
const ENTRIES = 100;
const OPEN_DEPTH = 2;

/** Return an element that shows any JSON value. */
export function valueOf(value, depth = 0) {
  if (typeof value === "string") return textOf(value, depth);
  if (value === null || typeof value !== "object") return el("code", { class: `scalar is-${value === null ? "null" : typeof value}`, text: String(value) });
  if (Array.isArray(value) && value.length && value.every(isMessage)) return el("div", { class: "messages" }, value.map(messageOf));
  if (Array.isArray(value) && value.length && value.every(isWord)) return el("ul", { class: "words" }, value.slice(0, ENTRIES).map((word) => el("li", { text: shown(String(word)) })), value.length > ENTRIES ? el("li", { class: "brief", text: `and ${value.length - ENTRIES} more` }) : null);
  const entries = Array.isArray(value) ? value.map((item, index) => [index, item]) : Object.entries(value);
  if (!entries.length) return el("code", { class: "scalar is-null", text: Array.isArray(value) ? "[ ]" : "{ }" });
  return entriesOf(entries, depth);
}

function entriesOf(entries, depth) {
  const list = el("dl", { class: "entries" });
  const add = (from) => {
    for (const [name, item] of entries.slice(from, from + ENTRIES)) list.append(entryOf(name, item, depth));
    const rest = entries.length - from - ENTRIES;
    if (rest > 0) list.append(el("button", { class: "more", type: "button", text: `show ${Math.min(rest, ENTRIES)} of ${rest} more`, onclick: (event) => { event.target.remove(); add(from + ENTRIES); } }));
  };
  add(0);
  return list;
}

function entryOf(name, item, depth) {
  const key = el("dt", { text: shown(String(name)) });
  const nested = item !== null && typeof item === "object" && Object.keys(item).length > 0;
  if (!nested) return el("div", { class: "entry" }, key, el("dd", {}, valueOf(item, depth + 1)));
  const body = el("div", { class: "nested" });
  const folded = el("details", { class: "entry is-nested" }, el("summary", {}, key, el("span", { class: "brief", text: brief(item) })), body);
  const fill = () => body.childNodes.length || body.append(valueOf(item, depth + 1));
  folded.addEventListener("toggle", () => folded.open && fill());
  if (depth < OPEN_DEPTH && size(item) < 40) {
    fill();
    folded.open = true;
  }
  return folded;
}

function size(value) {
  return value !== null && typeof value === "object" ? Object.values(value).reduce((sum, item) => sum + 1 + (sum < 100 ? size(item) : 0), 0) : 1;
}

function brief(value) {
  return Array.isArray(value) ? many(value.length, "entry").replace("entrys", "entries") : oneLine(Object.keys(value).join(", "), 60);
}

function textOf(text, depth) {
  const shownText = shown(text);
  const made = el("pre", { class: depth ? "text is-inline" : "text", dir: "auto" });
  if (shownText.length <= LONG) {
    made.textContent = shownText;
    return made;
  }
  made.textContent = shownText.slice(0, LONG) + "…";
  const more = el("button", { class: "more", type: "button", text: `show all ${shownText.length.toLocaleString("en")} characters`, onclick: () => { made.textContent = shownText; more.remove(); } });
  return el("div", {}, made, more);
}

function isWord(value) {
  return typeof value === "number" || typeof value === "boolean" || (typeof value === "string" && value.length <= 40 && !value.includes("\n"));
}

function isMessage(value) {
  return value !== null && typeof value === "object" && typeof value.role === "string" && !Array.isArray(value);
}

/** Return one message: who says it, its text, the calls that it asks for. */
export function messageOf(message) {
  const { role, text, reasoning, tool_calls: calls, name, id, ...rest } = message;
  const made = el("div", { class: `message is-${["system", "user", "assistant", "tool"].includes(role) ? role : "other"}` },
    el("div", { class: "role", text: oneLine(name ? `${role} · ${name}` : role, 60) }));
  if (reasoning) made.append(el("div", { class: "reasoning" }, valueOf(reasoning, 1)));
  if (text !== undefined && text !== "") made.append(valueOf(text, 0));
  for (const call of Array.isArray(calls) ? calls : []) made.append(callOf(call));
  const attached = Array.isArray(rest.parts) ? rest.parts.filter((part) => part && typeof part === "object" && part.media_type) : [];
  for (const part of attached) made.append(attachedOf(part));
  if (attached.length) rest.parts = rest.parts.filter((part) => !attached.includes(part));
  delete rest.type;
  const others = Object.entries(rest).filter(([, value]) => value !== null && value !== false && !(Array.isArray(value) && !value.length));
  if (others.length) made.append(entriesOf(others, 1));
  return made;
}

/** Return a picture, a sound or a file as a line: the record keeps none of what is in it. */
function attachedOf(part) {
  const { type, name, url, file_id: id, media_type: media, size_bytes: size } = part;
  const bytes = size === undefined ? "" : size < 1e3 ? `${size} bytes` : size < 1e6 ? `${(size / 1e3).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
  return el("div", { class: "attached" }, el("strong", { text: oneLine(String(type), 20) }), ` ${[name, url, id, media, bytes].filter(Boolean).map((one) => oneLine(String(one), 120)).join(" · ")}`);
}

/** Return a tool call as a line with its arguments. */
export function callOf(call) {
  if (call === null || typeof call !== "object") return valueOf(call, 1);
  const args = call.args ?? call.arguments ?? call.args_json ?? {};
  return el("div", { class: "call" }, el("span", { class: "call-name", text: oneLine(call.name ?? "?", 80) }), valueOf(parsed(args), 1));
}

/** Return what a JSON text holds, or the text where it is none. */
function parsed(value) {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
