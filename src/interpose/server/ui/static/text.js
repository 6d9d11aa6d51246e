// Text and elements. Everything that a model, a tool or a user wrote becomes a text node, never markup.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Return text in which control characters can be seen and do nothing: pictures of them, or their code points. */
export function shown(text) {
  return String(text).replace(HIDDEN, (char) => {
    const code = char.codePointAt(0);
    if (char === "\r") return "";
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x200d || code === 0x200c) return char; // joins letters and emoji
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** Return text on one line, cut where it is long. */
export function oneLine(text, limit = 200) {
  const line = shown(String(text).slice(0, limit * 2)).replace(/\s+/g, " ").trim();
  return line.length > limit ? line.slice(0, limit - 1) + "…" : line;
}

/** Return an element. `class`, `text` and `on…` are what they say, other props are attributes; null ones are left out. */
export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child); // before `dir`, which is found anew with each
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  return made;
}

/** Return a button. */
export function button(text, onclick, kind = "") {
  return el("button", { class: `button ${kind}`, type: "button", text, onclick });
}

/** Return an icon of the page. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.append(...[...document.getElementById(`i-${name}`).children].map((path) => path.cloneNode()));
  return svg;
}

/** Return milliseconds as a person says them. */
export function duration(ms) {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

/** Return a count with thousands apart. */
export function count(number) {
  return Number(number).toLocaleString("en");
}

/** Return the time of day, or the date where it is not today. */
export function clock(ms) {
  const then = new Date(ms);
  const today = then.toDateString() === new Date().toDateString();
  return today ? then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : then.toLocaleDateString([], { day: "numeric", month: "short" });
}

/** Return an id that nobody else makes; `crypto.randomUUID` is missing where a page comes over plain HTTP. */
export function newId(prefix) {
  return `${prefix}_${[...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
