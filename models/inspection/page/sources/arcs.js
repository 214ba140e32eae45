// Arcs on a canvas: above a row between its tokens, and from row to row; strong weights are thick and opaque.

const SHADES = 6;
const MOST_DRAWN = 400; // visible at once: more would be slow and illegible
const MOST_AT_ONCE = 40; // an arc takes a fifth of a millisecond; the others are drawn when scrolling stops
const STROKE = 100; // arcs in one path; a browser's time for a path grows faster than its arcs
const MOST_DASHED = 150; // dashes take three times as long
const MOST_LABELLED = 150; // more labels would cover each other
const LABEL_FONT = '11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';

/** The rows an arc crosses. */
function crossedRows(layout, edge) {
  const [a, b] = [layout.rowOf[edge.source], layout.rowOf[edge.target]];
  return a < b ? [a, b] : [b, a];
}

/** Group edges by relation and strength, weak ones first, so that a batch is one stroke. */
function batchEdges(edges, largest) {
  const batches = new Map();
  for (const edge of edges) {
    const shade = Math.min(SHADES - 1, Math.floor(SHADES * Math.sqrt(edge.weight / (largest || 1))));
    const key = `${shade}${edge.relation}`;
    if (!batches.has(key)) batches.set(key, { shade, relation: edge.relation, edges: [] });
    batches.get(key).edges.push(edge);
  }
  return [...batches.values()].sort((a, b) => a.shade - b.shade);
}

/** The strongest arcs that touch the rows from `first` to `last`, as batches. */
function selectVisible(layout, batches, { first, last }) {
  const touching = batches.map((batch) => ({
    ...batch,
    edges: batch.edges.filter((edge) => {
      const [top, bottom] = crossedRows(layout, edge);
      return top <= last && bottom >= first;
    }),
  }));
  return strongest(touching, MOST_DRAWN);
}

/** At most `most` arcs, from the strongest batches. */
function strongest(batches, most) {
  let room = most;
  const kept = [];
  for (const batch of [...batches].reverse()) {
    kept.unshift({ ...batch, edges: batch.edges.slice(0, room) });
    room -= kept[0].edges.length;
  }
  return kept;
}

/** Write the dependency of each arc that has one on it. */
function labelArcs(context, layout, batches, { colours, deprel }) {
  const labelled = new Set();
  Object.assign(context, { font: LABEL_FONT, textAlign: "center", textBaseline: "middle" });
  for (const { relation, edges } of batches) {
    for (const { source, target } of edges) {
      const name = deprel(source, target).slice(0, -1); // without the direction, which the arrowhead shows
      const ends = [source, target].sort().join(); // arcs in both directions share a label
      if (!name || labelled.has(ends)) continue;
      labelled.add(ends);
      const [x, y] = middleOfArc(layout, source, target);
      const width = context.measureText(name).width + 6;
      context.fillStyle = colours.card;
      context.fillRect(x - width / 2, y - 7, width, 14);
      context.fillStyle = colours.relation(relation);
      context.fillText(name, x, y);
    }
  }
}

function middleOfArc(layout, source, target) {
  const [from, to] = [layout.rows[layout.rowOf[source]], layout.rows[layout.rowOf[target]]];
  const [x0, x1] = [tokenCentre(layout, source), tokenCentre(layout, target)];
  const y = from === to ? from.tokens - heightOfBow(layout, x0, x1) : (from.tokens + to.tokens + layout.line) / 2;
  return [(x0 + x1) / 2, y];
}

function heightOfBow(layout, x0, x1) {
  return Math.min(layout.above - 8, 16 + (layout.above - 24) * (Math.abs(x1 - x0) / layout.width) ** 0.6);
}

/** Draw batches of arcs; the canvas' origin is the top of the text. */
function drawArcs(context, layout, batches, { colours, dashed, strong = false, faint = 1 }) {
  context.lineCap = "round";
  for (const { shade, relation, edges } of batches) {
    const share = (shade + 1) / SHADES;
    context.globalAlpha = strong ? 0.45 + 0.55 * share : faint * (0.12 + 0.7 * share ** 1.2);
    context.lineWidth = (strong ? 1.4 : 0.8) + 2.6 * share ** 2;
    context.strokeStyle = context.fillStyle = colours.relation(relation);
    context.setLineDash(dashed ? DASHES[relationNumber(relation)] : []);
    for (let begin = 0; begin < edges.length; begin += STROKE) {
      context.beginPath();
      for (const edge of edges.slice(begin, begin + STROKE)) trace(context, layout, edge);
      context.stroke();
    }
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
}

function trace(context, layout, { source, target }) {
  const [from, to] = [layout.rowOf[source], layout.rowOf[target]];
  const [x0, x1] = [tokenCentre(layout, source), tokenCentre(layout, target)];
  if (source === target) loop(context, x0, layout.rows[from].tokens);
  else if (from === to) bow(context, layout, x0, x1, layout.rows[from].tokens);
  else {
    const down = from < to;
    const y0 = layout.rows[from].tokens + (down ? layout.line : 0);
    const y1 = layout.rows[to].tokens + (down ? 0 : layout.line);
    const bend = (down ? 1 : -1) * Math.min(120, Math.abs(y1 - y0) / 2);
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
  }
}

function loop(context, x, y) {
  context.moveTo(x - 3, y);
  context.bezierCurveTo(x - 10, y - 15, x + 10, y - 15, x + 3, y);
}

/** An arc above its row, higher for longer distances, with an arrowhead at its target. */
function bow(context, layout, x0, x1, y) {
  const span = Math.abs(x1 - x0);
  const height = heightOfBow(layout, x0, x1);
  const aside = Math.sign(x1 - x0) * Math.min(5, span / 8); // separates incoming and outgoing arcs of a token
  context.moveTo(x0 + aside, y);
  context.bezierCurveTo(x0 + aside, y - height * 1.33, x1 - aside, y - height * 1.33, x1 - aside, y - 1);
  context.moveTo(x1 - aside - 3, y - 6);
  context.lineTo(x1 - aside, y - 1);
  context.lineTo(x1 - aside + 3, y - 6);
}
