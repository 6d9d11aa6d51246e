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
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
  return made;
}

/**
 * Keep what can be seen of a box in `view`, and call `changed` when it is another part. Asking the box itself while
 * drawing would make the browser lay out the page anew, each time.
 */
export function watched(box, changed) {
  const view = { left: 0, top: 0, width: 0, height: 0 };
  const look = () => {
    [view.left, view.top, view.width, view.height] = [box.scrollLeft, box.scrollTop, box.clientWidth, box.clientHeight];
    changed();
  };
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
  view.scrollTo = (left, top) => {
    if (left === view.left && top === view.top) return;
    box.scrollTo(left, top);
    look();
  };
  return view;
}

/** Return the icon of a kind of node: a copy of a symbol's paths, which costs less than a reference to them. */
export function icon(kind) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const symbol = document.getElementById(`i-${["run", "step", "model", "tool"].includes(kind) ? kind : "step"}`);
  svg.append(...[...symbol.children].map((path) => path.cloneNode()));
  return svg;
}

/** Return milliseconds as a person says them. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 0.95) return `${ms < 0.05 ? 0 : ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(ms < 9_950 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h ? `${h} h ${String(m).padStart(2, "0")} min` : `${m} min ${String(s).padStart(2, "0")} s`;
}

/** Return a count with thousands apart, short where it is large. */
export function count(number) {
  if (number >= 1_000_000) return `${(number / 1_000_000).toFixed(1)}M`;
  return number >= 10_000 ? `${(number / 1000).toFixed(1)}k` : number.toLocaleString("en");
}

/** Return a count in few letters. */
export function short(number) {
  return number >= 1000 && number < 10_000 ? `${(number / 1000).toFixed(1)}k` : count(number);
}

/** Return US dollars. */
export function money(usd) {
  return `$${usd < 0.01 ? usd.toFixed(5) : usd.toFixed(3)}`;
}

const TIME = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Return the time of day, with the date where it is not today. */
export function clock(seconds) {
  const then = new Date(seconds * 1000);
  const time = TIME.format(then);
  return then.toDateString() === new Date().toDateString() ? time : `${then.toLocaleDateString()} ${time}`;
}

/** Return "1 node", "2 nodes". */
export function many(number, what) {
  return `${count(number)} ${what}${number === 1 ? "" : "s"}`;
}
