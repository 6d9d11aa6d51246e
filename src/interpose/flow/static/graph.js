// The graph: only what can be seen is in the document, so that thousands of nodes cost what a screenful costs.

import { CARD, edgePath, layout } from "./layout.js";
import { duration, el, icon, oneLine, short, watched } from "./text.js";

const MARGIN = 300;
const SCALES = [0.4, 0.55, 0.7, 0.85, 1, 1.25, 1.5];
const SVG = "http://www.w3.org/2000/svg";

export class Graph {
  /** `choose(node)` is called when a person picks a node, `fold(node)` when one is folded or unfolded. */
  constructor(box, { choose, fold }) {
    this.box = box;
    this.choose = choose;
    this.fold = fold;
    this.plan = { items: [], bands: [], edges: [], width: 0, height: 0 };
    this.cards = new Map();
    this.bands = new Map();
    this.spare = { cards: [], bands: [] };
    this.places = new Map();
    this.scale = matchMedia("(max-width: 760px)").matches ? 0.85 : 1;
    this.natural = this.scale;
    this.sizer = el("div", { class: "sizer" });
    this.canvas = el("div", { class: "canvas" });
    this.edges = document.createElementNS(SVG, "svg");
    this.edges.setAttribute("class", "edges");
    this.lines = document.createElementNS(SVG, "path");
    this.lit = document.createElementNS(SVG, "path");
    this.lit.setAttribute("class", "lit");
    this.edges.append(this.lines, this.lit);
    this.under = el("div", { class: "under" });
    this.canvas.append(this.under, this.edges);
    this.canvas.style.transform = `scale(${this.scale})`;
    this.sizer.append(this.canvas);
    box.append(this.sizer);
    box.addEventListener("click", (event) => this.clicked(event));
    this.seen = watched(box, () => this.draw());
  }

  /** Show a run; `view` has the `selected` node, the `matches` of a search or null, and the time `now`. */
  show(run, view) {
    if (this.run !== run) this.clear();
    if (this.run !== run || this.version !== run.version || this.folds !== run.folded.size) {
      this.plan = layout(run.roots, run.folded);
      this.places = new Map(this.plan.items.map((item) => [item.node.id, item]));
      for (const band of this.plan.bands) this.places.set(band.node.id, { ...band, isBand: true });
      this.sizer.style.width = `${this.plan.width * this.scale}px`;
      this.sizer.style.height = `${this.plan.height * this.scale}px`;
    }
    [this.run, this.version, this.folds, this.view] = [run, run.version, run.folded.size, view];
    this.draw();
  }

  clear() {
    for (const one of [...this.cards.values(), ...this.bands.values()]) one.remove();
    this.cards.clear();
    this.bands.clear();
    this.lines.setAttribute("d", "");
    this.lit.setAttribute("d", "");
    this.run = null;
    this.seen.scrollTo(0, 0);
  }

  draw() {
    if (!this.run || !this.seen.height) return;
    const [k, seen] = [this.scale, this.seen];
    const [left, top] = [seen.left / k - MARGIN, seen.top / k - MARGIN];
    const [right, bottom] = [left + seen.width / k + 2 * MARGIN, top + seen.height / k + 2 * MARGIN];
    const inside = (x, y, width, height) => x < right && x + width > left && y < bottom && y + height > top;
    const { plan, spare } = this;
    this.sync(this.bands, spare.bands, plan.bands.filter((b) => inside(b.x, b.y, b.width, b.height)), (made, band) => this.band(made, band));
    this.sync(this.cards, spare.cards, plan.items.filter((i) => inside(i.x, i.y, CARD.width, CARD.height)), (made, item) => this.card(made, item));
    let [lines, lit] = ["", ""];
    for (const edge of this.plan.edges) {
      const { from, to } = edge;
      if (!inside(Math.min(from.x, to.x), Math.min(from.y, to.y), Math.abs(to.x - from.x) + CARD.width, Math.abs(to.y - from.y) + CARD.height)) continue;
      if (to.node.status === "running") lit += edgePath(edge);
      else lines += edgePath(edge);
    }
    if (lines !== this.drawn) this.lines.setAttribute("d", (this.drawn = lines));
    if (lit !== this.drawnLit) this.lit.setAttribute("d", (this.drawnLit = lit));
  }

  /** Bring the elements of `pool` in line with the places that are `wanted`; what leaves is used again. */
  sync(pool, spare, wanted, update) {
    const kept = new Set(wanted.map((one) => one.node.id));
    for (const [id, made] of pool) {
      if (kept.has(id)) continue;
      pool.delete(id);
      spare.push(made);
    }
    for (const one of wanted) {
      const made = pool.get(one.node.id);
      if (!made) {
        pool.set(one.node.id, update(spare.pop(), one));
      } else update(made, one);
    }
    for (const made of spare.splice(0)) made.remove();
  }

  band(made, band) {
    if (!made) {
      made = el("div", {}, el("span", { class: "band-name" }), el("span", { class: "band-time" }));
      this.under.append(made);
    }
    if (made.node !== band.node) {
      made.node = band.node;
      made.style.zIndex = band.node.depth;
      made.dataset.id = band.node.id;
    }
    put(made, "transform", `translate(${band.x}px, ${band.y}px)`);
    put(made, "width", `${band.width}px`);
    put(made, "height", `${band.height}px`);
    this.mark(made, band.node, "band");
    set(made.children[0], oneLine(band.node.name));
    set(made.children[1], times(band.node, this.view.now));
    return made;
  }

  card(made, item) {
    const { node } = item;
    if (!made) {
      made = el("div", {},
        el("span", { class: "card-icon" }),
        el("span", { class: "card-name" }),
        el("span", { class: "card-note" }),
        el("span", { class: "card-state" }),
        el("button", { class: "card-fold", type: "button", tabindex: "-1" }));
      this.canvas.append(made);
    }
    if (made.node !== node) {
      if (made.node?.kind !== node.kind) made.children[0].replaceChildren(icon(node.kind));
      made.node = node;
      made.dataset.id = node.id;
      made.version = null;
    }
    put(made, "transform", `translate(${item.x}px, ${item.y}px)`);
    this.mark(made, node, "card");
    if (made.version !== node.version) {
      made.version = node.version;
      set(made.children[1], oneLine(node.name, 60));
      made.title = oneLine(`${node.kind} ${node.name}${node.event.error ? `: ${node.event.error}` : ""}`);
    }
    set(made.children[2], note(node, this.view.now));
    this.foldButton(made.children[4], node);
    return made;
  }

  foldButton(button, node) {
    const folded = this.run.folded.has(node.id);
    button.hidden = !node.children.length || !node.parent;
    if (button.hidden) return;
    set(button, folded ? "+" : "–");
    button.setAttribute("aria-label", folded ? "Unfold" : "Fold");
  }

  mark(made, node, kind) {
    const { selected, matches } = this.view;
    const marks = [kind, `kind-${node.kind}`, `is-${node.status}`];
    if (selected === node) marks.push("is-selected");
    if (matches) marks.push(matches.has(node) ? "is-match" : "is-dim");
    if (node.event.attempts > 1) marks.push("is-retried");
    if (node.event.made_by) marks.push("is-made-up");
    const name = marks.join(" ");
    if (made.className !== name) made.className = name;
  }

  clicked(event) {
    const target = event.target.closest("[data-id]");
    const node = target && this.run.nodes.get(target.dataset.id);
    if (!node) return;
    if (event.target.closest(".card-fold")) this.fold(node);
    else this.choose(node);
  }

  /** Scroll so that the node can be seen. */
  reveal(node) {
    const place = node && this.places.get(node.id);
    if (!place) return;
    const [k, seen] = [this.scale, this.seen];
    const height = place.isBand ? 24 : CARD.height;
    seen.scrollTo(nearest(seen.left, seen.width, place.x * k, CARD.width * k), nearest(seen.top, seen.height, place.y * k, height * k));
  }

  /** Make the graph larger (1) or smaller (-1), or its own size (0). */
  zoom(by) {
    const at = SCALES.indexOf(this.scale);
    const { seen } = this;
    const [cx, cy] = [(seen.left + seen.width / 2) / this.scale, (seen.top + seen.height / 2) / this.scale];
    this.scale = by ? SCALES[Math.min(SCALES.length - 1, Math.max(0, at + by))] : this.natural;
    this.canvas.style.transform = `scale(${this.scale})`;
    this.sizer.style.width = `${this.plan.width * this.scale}px`;
    this.sizer.style.height = `${this.plan.height * this.scale}px`;
    seen.scrollTo(cx * this.scale - seen.width / 2, cy * this.scale - seen.height / 2);
    this.draw();
  }
}

function put(element, property, value) {
  if (element.style[property] !== value) element.style[property] = value;
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function times(node, now) {
  return node.status === "running" ? duration(Math.max(0, now - node.start)) : duration(node.end - node.start);
}

/** What a card says under its name: how long it took, and what it used. */
function note(node, now) {
  const parts = [times(node, now)];
  const usage = node.event.usage;
  if (usage && usage.total_tokens) parts.push(`${short(usage.total_tokens)} tok`);
  if (node.event.attempts > 1) parts.push(`×${node.event.attempts}`);
  if (node.event.made_by) parts.push(`by ${oneLine(node.event.made_by, 20)}`);
  if (node.event.outcome === "interrupted") parts.push("paused");
  return parts.join(" · ");
}

/** Return the scroll position nearest to `at` at which [start, start + size] can be seen with some room. */
function nearest(at, visible, start, size) {
  const room = Math.min(48, Math.max(0, (visible - size) / 2));
  if (start - room < at) return Math.max(0, start - room);
  return start + size + room > at + visible ? start + size + room - visible : at;
}
