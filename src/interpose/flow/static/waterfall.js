// The timeline: one row a node, its bar on the time of the run. Only the rows that can be seen are in the document.

import { duration, el, icon, oneLine, watched } from "./text.js";

const ROW = 28;
const MORE = 8;
const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 864e5];

export class Waterfall {
  constructor(box, axis, { choose, fold }) {
    this.box = box;
    this.choose = choose;
    this.fold = fold;
    this.rows = [];
    this.places = new Map();
    this.pool = [];
    this.sizer = el("div", { class: "sizer", role: "none" });
    box.append(this.sizer);
    this.ticks = el("div", { class: "ticks" });
    axis.append(this.ticks);
    box.addEventListener("click", (event) => this.clicked(event));
    this.seen = watched(box, () => this.draw());
  }

  show(run, view) {
    if (this.run !== run || this.version !== run.version || this.folds !== run.folded.size) {
      this.rows = run.rows();
      this.places = new Map(this.rows.map((node, index) => [node, index]));
      this.sizer.style.height = `${this.rows.length * ROW}px`;
    }
    [this.run, this.version, this.folds, this.view] = [run, run.version, run.folded.size, view];
    this.draw();
  }

  clear() {
    this.run = null;
    this.rows = [];
    this.sizer.style.height = "0";
    for (const row of this.pool) row.remove();
    this.pool = [];
    this.ticks.replaceChildren();
    this.seen.scrollTo(0, 0);
  }

  draw() {
    const { seen } = this;
    if (!this.run || !seen.height) return;
    const first = Math.max(0, Math.floor(seen.top / ROW) - MORE);
    const last = Math.max(first, Math.min(this.rows.length, Math.ceil((seen.top + seen.height) / ROW) + MORE));
    const start = this.run.start;
    const span = Math.max(0.05, this.run.end(this.view.now) - start);
    while (this.pool.length < last - first) this.pool.push(this.newRow());
    while (this.pool.length > last - first) this.pool.pop().remove();
    for (let index = first; index < last; index++) {
      // A row keeps its element while it stays visible, so that little changes while scrolling.
      this.fill(this.pool[index % this.pool.length], this.rows[index], index, start, span);
    }
    const chosen = this.view.selected && this.places.has(this.view.selected) ? `t-${this.view.selected.id}` : "";
    if (chosen !== this.active) this.box.setAttribute("aria-activedescendant", (this.active = chosen));
    this.drawAxis(span);
  }

  newRow() {
    const row = el("div", { class: "row", role: "treeitem" },
      el("span", { class: "row-name" }, el("button", { class: "twist", type: "button", tabindex: "-1", "aria-label": "Fold or unfold" }), el("span", { class: "row-icon" }), el("span", { class: "row-text" })),
      el("span", { class: "row-time" }, el("span", { class: "bar" }), el("span", { class: "bar-text" })));
    this.sizer.append(row);
    return row;
  }

  fill(row, node, index, start, span) {
    const [name, time] = row.children;
    if (row.node !== node) {
      row.node = node;
      row.id = `t-${node.id}`;
      row.version = null;
      row.setAttribute("aria-level", node.depth + 1);
      name.style.setProperty("--depth", Math.min(node.depth, 12));
      if (row.kind !== node.kind) name.children[1].replaceChildren(icon((row.kind = node.kind)));
    }
    const top = `translateY(${index * ROW}px)`;
    if (row.style.transform !== top) row.style.transform = top;
    this.mark(row, node);
    if (row.version !== node.version) {
      row.version = node.version;
      name.children[2].textContent = oneLine(node.name, 120);
      row.title = oneLine(`${node.kind} ${node.name}${node.event.error ? `: ${node.event.error}` : ""}`);
    }
    this.twist(row, name.children[0], node);
    this.bar(time, node, start, span);
  }

  twist(row, button, node) {
    const has = node.children.length > 0;
    const open = !this.run.folded.has(node.id);
    button.style.visibility = has ? "visible" : "hidden";
    button.classList.toggle("is-open", open);
    if (has) row.setAttribute("aria-expanded", open);
    else row.removeAttribute("aria-expanded");
  }

  bar(time, node, start, span) {
    const end = node.end === null ? this.run.end(this.view.now) : node.end;
    const left = Math.min(100, (100 * (node.start - start)) / span);
    const width = Math.max(0, Math.min(100 - left, (100 * (end - node.start)) / span));
    const [bar, text] = time.children;
    bar.style.left = `${left}%`;
    bar.style.width = `${width}%`;
    const said = duration(end - node.start);
    if (text.textContent !== said) text.textContent = said;
    const right = left + width > 78;
    text.style.left = right ? "" : `${left + width}%`;
    text.style.right = right ? `${100 - left}%` : "";
    text.classList.toggle("is-inside", right && left < 14);
  }

  mark(row, node) {
    const { selected, matches } = this.view;
    const marks = ["row", `kind-${node.kind}`, `is-${node.status}`];
    if (selected === node) marks.push("is-selected");
    if (matches) marks.push(matches.has(node) ? "is-match" : "is-dim");
    const name = marks.join(" ");
    if (row.className === name) return;
    row.className = name;
    row.setAttribute("aria-selected", selected === node);
  }

  drawAxis(span) {
    const wanted = span / Math.max(2, Math.floor((this.seen.width * 0.6) / 110));
    const step = TICKS.find((tick) => tick >= wanted) || TICKS[TICKS.length - 1];
    const count = Math.min(60, Math.floor(span / step) + 1);
    const ticks = this.ticks.children;
    while (ticks.length > count) this.ticks.lastChild.remove();
    for (let n = 0; n < count; n++) {
      const tick = ticks[n] || this.ticks.appendChild(el("span", { class: "tick" }));
      const said = n ? duration(n * step) : "0";
      if (tick.textContent !== said) tick.textContent = said;
      tick.style.left = `${(100 * n * step) / span}%`;
    }
  }

  clicked(event) {
    const row = event.target.closest(".row");
    if (!row) return;
    if (event.target.closest(".twist")) this.fold(row.node);
    else this.choose(row.node);
  }

  reveal(node) {
    const index = this.places.get(node);
    if (index === undefined) return;
    const { seen } = this;
    const [top, bottom] = [index * ROW, (index + 1) * ROW];
    if (top < seen.top) seen.scrollTo(0, Math.max(0, top - ROW));
    else if (bottom > seen.top + seen.height) seen.scrollTo(0, bottom + ROW - seen.height);
  }
}
