// Markdown, the part that models write, as elements. Text stays text: no HTML, no pictures, links to http and https alone.
// Written to stay linear on hostile text: a mark that closes is looked for once, and nesting is bounded.

import { el, shown } from "./text.js";

const DEPTH = 6;
const LINE = 500; // rulers, tables and links are looked for in lines and labels of this length at most
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,30})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULER = /^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$/;
const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])( {1,4})(?=\S)/;
const DASHES = /^\|?[ :]*-[-| :]*$/;

/** Return the blocks of a text: `{ source, make }`; equal sources make equal elements. */
export function blocks(text, depth = 0) {
  const lines = text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n");
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [end, make] = blockAt(lines, at, depth);
    found.push({ source: lines.slice(at, end).join("\n"), make });
    at = end;
  }
  return found;
}

/** Return elements for a text. */
export function markdown(text, depth = 0) {
  return blocks(text, depth).map((block) => block.make());
}

function blockAt(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [at + 1, () => el(`h${Math.min(6, heading[1].length + 2)}`, { dir: "auto" }, inline(heading[2].replace(/ +#+ *$/, "")))];
  if (line.length < LINE && RULER.test(line)) return [at + 1, () => el("hr")];
  if (depth < DEPTH && /^ {0,3}>/.test(line)) return quoted(lines, at, depth);
  if (depth < DEPTH && ITEM.test(line)) return listed(lines, at, depth);
  if (isTable(lines, at)) return table(lines, at);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !starts(lines, end, depth)) end += 1;
  return [end, () => el("p", { dir: "auto" }, inline(lines.slice(at, end).join("\n").trim()))];
}

function starts(lines, at, depth) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || (depth < DEPTH && (/^ {0,3}>/.test(line) || ITEM.test(line))) || (line.length < LINE && RULER.test(line)) || isTable(lines, at);
}

function fenced(lines, at, [, mark, language]) {
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(mark) && !lines[end].trim().slice(mark.length).replaceAll(mark[0], "").trim())) end += 1;
  const code = lines.slice(at + 1, end).join("\n");
  return [Math.min(end + 1, lines.length), () => codeOf(code, language)];
}

/** Return a block of code, with a button that copies it. */
export function codeOf(code, language = "") {
  const copy = el("button", { class: "copy", type: "button", text: "copy", onclick: () => copied(copy, code, body) });
  const body = el("code", { text: shown(code) });
  return el("div", { class: "code" }, el("div", { class: "code-head" }, el("span", { text: shown(language) || "text" }), copy), el("pre", { tabindex: "0" }, body));
}

async function copied(button, text, body) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(body); // no clipboard here: it is chosen, so that the keyboard can copy it
    button.textContent = "selected";
  }
  setTimeout(() => (button.textContent = "copy"), 1500);
}

function quoted(lines, at, depth) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return [end, () => el("blockquote", {}, markdown(inner.join("\n"), depth + 1))];
}

function listed(lines, at, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    if (item && item[1].length <= indent.length + 1) {
      if (/\d/.test(item[2]) !== ordered || item[1].length < indent.length) break;
      items.push([lines[end].slice(item[0].length)]);
    } else if (!lines[end].trim()) {
      const next = lines[end + 1];
      if (next === undefined || !(/^ {2,}\S/.test(next) || ITEM.test(next))) break;
      items.at(-1).push("");
    } else if (item || /^ {2,}/.test(lines[end])) items.at(-1).push(lines[end].slice(Math.min(/^ */.exec(lines[end])[0].length, indent.length + mark.length + 1)));
    else if (!starts(lines, end, depth) && lines[end - 1].trim()) items.at(-1).push(lines[end]);
    else break;
    end += 1;
  }
  const start = ordered ? String(parseInt(mark, 10)) : null;
  return [end, () => el(ordered ? "ol" : "ul", { start }, items.map((item) => el("li", { dir: "auto" }, tight(markdown(item.join("\n"), depth + 1)))))];
}

/** A first paragraph of an item needs no space of its own. */
function tight(nodes) {
  return nodes[0]?.tagName === "P" ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
}

function isTable(lines, at) {
  const next = lines[at + 1];
  return lines[at].includes("|") && next !== undefined && next.length < LINE && next.includes("|") && DASHES.test(next.trim());
}

function table(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const row = (line, tag) => el("tr", {}, cells(line).map((cell) => el(tag, { dir: "auto" }, inline(cell))));
  return [end, () => el("div", { class: "table", tabindex: "0" }, el("table", {}, el("thead", {}, row(lines[at], "th")), el("tbody", {}, lines.slice(at + 2, end).map((line) => row(line, "td")))))];
}

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());
}

/** Return text nodes and elements for a text without blocks. */
export function inline(text, depth = 0) {
  const nodes = [];
  const seen = new Map(); // where each mark is next
  const next = (mark, from) => {
    if (!seen.has(mark) || (seen.get(mark) >= 0 && seen.get(mark) < from)) seen.set(mark, text.indexOf(mark, from));
    return seen.get(mark);
  };
  let plain = "";
  const flush = () => {
    if (plain) nodes.push(shown(plain));
    plain = "";
  };
  for (let at = 0; at < text.length; ) {
    const found = spanAt(text, at, depth, next);
    if (!found) plain += text[at++];
    else if (typeof found[1] === "string") [at, plain] = [found[0], plain + found[1]];
    else {
      flush();
      at = found[0];
      nodes.push(found[1]);
    }
  }
  flush();
  return nodes;
}

function spanAt(text, at, depth, next) {
  const char = text[at];
  if (char === "\n") return [at + 1, el("br")];
  if (char === "\\") return /[!-/:-@[-`{-~]/.test(text[at + 1] || "") ? [at + 2, text[at + 1]] : null;
  if (char === "`") return codeAt(text, at, next);
  if (char === "*" || char === "_" || char === "~") return stressAt(text, at, char, depth, next);
  if (char === "[") return linkAt(text, at, depth, next);
  if (char === "h" && !/\w/.test(text[at - 1] || "")) return addressAt(text, at);
  return null;
}

function codeAt(text, at, next) {
  let from = at;
  while (text[from] === "`") from += 1;
  const mark = text.slice(at, from);
  const end = next(mark, from);
  if (end < 0) return [from, mark];
  return [end + mark.length, el("code", { text: shown(text.slice(from, end).replace(/^ (.+) $/, "$1")) })];
}

function stressAt(text, at, char, depth, next) {
  let from = at;
  while (text[from] === char) from += 1;
  const mark = text.slice(at, from);
  const isWord = char === "_" && /\w/.test(text[at - 1] || "");
  if (depth >= DEPTH || isWord || mark.length > 3 || (char === "~" && mark.length !== 2) || !/\S/.test(text[from] || "")) return [from, mark];
  const end = next(mark, from);
  if (end < 0 || /\s/.test(text[end - 1]) || (char === "_" && /\w/.test(text[end + mark.length] || ""))) return [from, mark];
  const inner = inline(text.slice(from, end), depth + 1);
  const tags = char === "~" ? ["del"] : [["em"], ["strong"], ["strong", "em"]][mark.length - 1];
  return [end + mark.length, tags.reduceRight((children, tag) => [el(tag, {}, children)], inner)[0]];
}

function linkAt(text, at, depth, next) {
  const middle = next("](", at);
  if (middle < 0 || middle - at > LINE || depth >= DEPTH) return null;
  let [end, open] = [middle + 2, 1];
  for (; end < text.length && end - middle < 4 * LINE && open; end += 1) {
    if (text[end] === "(") open += 1;
    else if (text[end] === ")") open -= 1;
    else if (text[end] === "\n") return null;
  }
  if (open) return null;
  const label = text.slice(at + 1, middle);
  const address = text.slice(middle + 2, end - 1).trim().replace(/\s+["'(].*$/, "").replace(/^<(.*)>$/, "$1");
  const href = safe(address);
  return href && label.trim() ? [end, linkOf(href, inline(label, DEPTH), label)] : null;
}

function addressAt(text, at) {
  const found = /^https?:\/\/[^\s<>"'`\\^{}|]+/i.exec(text.slice(at, at + 4 * LINE));
  if (!found) return null;
  let address = found[0].replace(/[.,;:!?*_~\]]+$/, "");
  if (address.endsWith(")") && !address.includes("(")) address = address.replace(/[).,;:!?]+$/, "");
  const href = safe(address);
  return href ? [at + address.length, linkOf(href, [shown(address)], address)] : null;
}

/** Return the address in full if it is one of the web, else null. */
function safe(address) {
  try {
    const url = new URL(address);
    return ["http:", "https:"].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

/** A link; where its text looks like another place than it leads to, it says so. */
function linkOf(url, children, label) {
  const named = /(?:https?:\/\/|www\.|^)([\w-]+(?:\.[\w-]+)+)/i.exec(label.trim());
  const other = named && named[1].replace(/^www\./, "").toLowerCase() !== url.hostname.replace(/^www\./, "");
  return el("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank", title: url.href }, children, other ? ` (${url.hostname})` : null);
}
