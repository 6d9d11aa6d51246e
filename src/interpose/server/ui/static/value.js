// Arguments and results as a person reads them.

import { el, shown } from "./text.js";

const LONG = 3000;
const PRETTY = 200_000;

/** Return a value as text: what holds JSON with line breaks, the rest as it is. */
export function pretty(value) {
  const whole = parsed(value);
  if (typeof whole === "string") return whole;
  return JSON.stringify(whole, null, 2) ?? "";
}

/** Return what a JSON text of an object or a list holds; anything else as it is. */
export function parsed(text) {
  if (typeof text !== "string" || text.length > PRETTY || !/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text; // not whole yet, or no JSON
  }
}

/** Return an element with a value; a long one opens by hand. */
export function valueOf(value, label) {
  const text = shown(pretty(value));
  const made = el("pre", { class: "value", tabindex: "0", dir: "auto", "aria-label": label });
  if (text.length <= LONG) {
    made.textContent = text;
    return made;
  }
  made.textContent = text.slice(0, LONG) + "…";
  const more = el("button", { class: "more", type: "button", text: `show all ${text.length.toLocaleString("en")} characters`, onclick: () => { made.textContent = text; more.remove(); } });
  return el("div", {}, made, more);
}
