// Conversations in this browser: a list, and each with its entries. Those of one token are not shown with another.

const LIST = "interpose-chat";
const KEPT = 50;
const HIDDEN = 500;
const LARGEST = 1_500_000; // characters of one conversation; above, its oldest entries are let go

export class Shelf {
  constructor(token) {
    this.prefix = `${LIST}${token ? `-${mark(token)}` : ""}`;
  }

  /** What is there, newest first: `{ id, agent, title, at }`. */
  list() {
    const list = read(this.prefix);
    return Array.isArray(list) ? list.filter((one) => typeof one?.id === "string").sort((a, b) => b.at - a.at) : [];
  }

  hidden() {
    const hidden = read(`${this.prefix}-hidden`);
    return Array.isArray(hidden) ? hidden : [];
  }

  load(id) {
    const kept = read(`${this.prefix}:${id}`);
    return kept && Array.isArray(kept.entries) ? kept : null;
  }

  save(kept) {
    let text = JSON.stringify(kept);
    while (text.length > LARGEST && kept.entries.length > 2) {
      kept = { ...kept, isCut: true, entries: kept.entries.slice(Math.ceil(kept.entries.length / 4)) };
      text = JSON.stringify(kept);
    }
    const { id, agent, title, at } = kept;
    const list = [{ id, agent, title, at }, ...this.list().filter((one) => one.id !== id)].sort((a, b) => b.at - a.at);
    for (const old of list.splice(KEPT)) this.drop(old.id);
    while (!write(`${this.prefix}:${id}`, text) && list.length > 1) this.drop(list.pop().id); // full: the oldest goes
    write(this.prefix, JSON.stringify(list));
  }

  /** Forget a conversation, also where the server goes on listing it. */
  remove(id) {
    this.drop(id);
    write(`${this.prefix}-hidden`, JSON.stringify([id, ...this.hidden()].slice(0, HIDDEN)));
    write(this.prefix, JSON.stringify(this.list().filter((one) => one.id !== id)));
  }

  drop(id) {
    try {
      localStorage.removeItem(`${this.prefix}:${id}`);
    } catch {
      // storage may be forbidden; then nothing was kept
    }
  }
}

function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null; // forbidden, or not ours
  }
}

function write(name, text) {
  try {
    localStorage.setItem(name, text);
    return true;
  } catch {
    return false;
  }
}

/** A short mark of a text, to tell texts apart and not to keep them secret (FNV-1a, twice 32 bits). */
function mark(text) {
  return [0x811c9dc5, 0x01000193].map((seed) => [...text].reduce((hash, char) => Math.imul(hash ^ char.codePointAt(0), 0x01000193) >>> 0, seed).toString(36)).join("");
}
