// The list of conversations: those of this browser, and those that the server keeps.

import { clock, el, icon, oneLine } from "./text.js";

const $ = (id) => document.getElementById(id);

export class ThreadList {
  /** `acts` has `open(id)` and `forgot(id)`. */
  constructor(box, empty, acts) {
    [this.box, this.empty, this.acts] = [box, empty, acts];
    this.remote = [];
    this.rows = [];
  }

  /** Ask the server for the threads of its agents; where it does not tell, the list stays as it is. */
  async load(api, agents) {
    const told = await Promise.all(agents.map((agent) => api.threads(agent).then(({ threads }) => threads.map((one) => known(one, agent)), () => null)));
    if (!told.includes(null)) this.remote = told.flat();
  }

  find(id) {
    return this.rows.find((one) => one.id === id) || this.remote.find((one) => one.id === id);
  }

  show(shelf, shown, several) {
    const own = shelf.list();
    const here = new Set(own.map((one) => one.id));
    const hidden = new Set(shelf.hidden());
    this.shelf = shelf;
    this.rows = [...own, ...this.remote.filter((one) => !here.has(one.id) && !hidden.has(one.id))].sort((a, b) => b.at - a.at);
    this.box.replaceChildren(...this.rows.map((one) => this.row(one, one.id === shown, several)));
    this.empty.hidden = this.rows.length > 0;
  }

  row(one, isShown, several) {
    const words = oneLine(one.title || "Untitled", 80);
    const when = `${several ? `${oneLine(one.agent, 40)} · ` : ""}${clock(one.at)}`;
    const link = el("button", { class: "thread", type: "button", "aria-current": isShown ? "true" : null, onclick: () => this.acts.open(one.id) }, el("span", { class: "thread-title", text: words }), el("span", { class: "thread-when", text: when }));
    const remove = el("button", { class: "forget", type: "button", title: "Delete", "aria-label": `Delete the conversation ${words}`, onclick: () => this.forget(one.id, words) }, icon("trash"));
    return el("li", {}, link, remove);
  }

  forget(id, words) {
    $("forget-what").textContent = words;
    $("forget").onclose = () => {
      if ($("forget").returnValue !== "yes") return;
      this.shelf.remove(id);
      this.show(this.shelf, null, false);
      this.acts.forgot(id);
    };
    $("forget").returnValue = "";
    $("forget").showModal();
  }
}

function known({ threadId, title, updatedAt }, agent) {
  return { id: threadId, agent, title, at: Date.parse(updatedAt) || 0 };
}
