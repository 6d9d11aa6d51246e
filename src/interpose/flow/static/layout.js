// Where the cards of a graph stand. A run tells its steps from top to bottom; a step has its model calls at the left and
// what they asked for beside them; what a tool runs stands to the right of it.

export const CARD = { width: 184, height: 46 };
const TRUNK = 18;
const GAP = { across: 36, down: 10 };
const BAND = { above: 24, around: 10, between: 12 };

/** Return `{items, bands, edges, width, height}` for the roots; `folded` holds ids of nodes whose inside is hidden. */
export function layout(roots, folded) {
  const plan = { items: [], bands: [], edges: [], folded, width: 0 };
  let y = BAND.around;
  for (const root of roots) y += place(plan, root, BAND.around, y).height + BAND.between;
  return { ...plan, width: plan.width + BAND.around, height: y };
}

/** Place a node and all below it with its corner at (x, y), and return how much room that takes, and its card. */
function place(plan, node, x, y) {
  if (node.kind === "step") return placeStep(plan, node, x, y);
  if (node.kind !== "run") return column(plan, [node], x, y);
  const item = card(plan, node, x, y);
  if (plan.folded.has(node.id) || !node.children.length) return { width: CARD.width, height: CARD.height, item };
  return placeRun(plan, node, item, x, y);
}

function card(plan, node, x, y) {
  const item = { node, x, y };
  plan.items.push(item);
  plan.width = Math.max(plan.width, x + CARD.width);
  return item;
}

function placeRun(plan, node, item, x, y) {
  let height = CARD.height;
  let width = CARD.width;
  let before = item;
  for (const child of node.children) {
    const top = y + height + BAND.between;
    const room = place(plan, child, x, top);
    if (room.item) {
      plan.edges.push({ from: before, to: room.item, down: true });
      before = room.item;
    }
    height += BAND.between + room.height;
    width = Math.max(width, room.width);
  }
  return { width, height, item };
}

function placeStep(plan, node, x, y) {
  const band = { node, x, y, width: 0, height: 0 };
  plan.bands.push(band);
  const inner = { x: x + BAND.around, y: y + BAND.above };
  let first = null;
  let left = { width: CARD.width, height: 0 };
  let right = { width: 0, height: 0 };
  if (!plan.folded.has(node.id)) {
    const models = node.children.filter((child) => child.kind === "model");
    const others = node.children.filter((child) => child.kind !== "model");
    left = column(plan, models, inner.x, inner.y);
    first = left.items[0] || null;
    const asked = left.items[left.items.length - 1];
    right = column(plan, others, inner.x + Math.max(left.width, CARD.width) + GAP.across, inner.y);
    first = first || right.items[0] || null;
    if (asked) for (const item of right.items) plan.edges.push({ from: asked, to: item });
  }
  const width = Math.max(left.width, CARD.width) + (right.width ? GAP.across + right.width : 0);
  band.width = width + 2 * BAND.around;
  band.height = BAND.above + Math.max(left.height, right.height) + (first ? BAND.around : 0);
  plan.width = Math.max(plan.width, x + band.width);
  return { width: band.width, height: band.height, item: first };
}

/** Place cards one below the other, and what they hold beside them, from the top too: so the cards stay together. */
function column(plan, nodes, x, y) {
  const items = nodes.map((node, index) => card(plan, node, x, y + index * (CARD.height + GAP.down)));
  const beside = { width: 0, height: 0 };
  for (const item of items) {
    if (plan.folded.has(item.node.id)) continue;
    for (const child of item.node.children) {
      const room = place(plan, child, x + CARD.width + GAP.across, y + beside.height);
      if (room.item) plan.edges.push({ from: item, to: room.item });
      beside.height += room.height + GAP.down;
      beside.width = Math.max(beside.width, room.width);
    }
  }
  const own = items.length * (CARD.height + GAP.down);
  const width = items.length ? CARD.width + (beside.width ? GAP.across + beside.width : 0) : 0;
  return { items, item: items[0] || null, width, height: Math.max(0, Math.max(own, beside.height) - GAP.down) };
}

/** Return the path of an edge between two cards. */
export function edgePath({ from, to, down }) {
  if (down) {
    return `M${to.x + TRUNK} ${from.y + CARD.height}V${to.y}`;
  }
  const [x1, y1, x2, y2] = [from.x + CARD.width, from.y + CARD.height / 2, to.x, to.y + CARD.height / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}
