// Tokens broken into rows, with room for arcs above each: all places are known without asking the browser.

const GAP = 8; // between tokens
const PADDING = 7; // beside the letters of a token
const WIDEST = 320;
const TAG_LETTER = 8; // width of a letter below a token
const BELOW = 20; // for a weight below the token

const SIZES = [
  { most: 30, font: 21, line: 38 },
  { most: 150, font: 18, line: 32 },
  { most: Infinity, font: 15, line: 26 },
];

function tokenFont(size) {
  return `${size}px Charter, "Bitstream Charter", "Iowan Old Style", Georgia, "DejaVu Serif", serif`;
}

const ruler = document.createElement("canvas").getContext("2d");

/** Left edges, widths and rows of all tokens of an attention result, for a width in CSS pixels. */
function layOut(attention, width) {
  const sizes = SIZES.filter(({ most }) => attention.tokens.length <= most);
  const layouts = sizes.map((size) => inRows(attention, width, size));
  const layout = layouts.find(({ rows }) => rows.length === attention.parts.size) ?? layouts[0];
  place(layout, attention.parts.size > 1);
  return layout;
}

/** Tokens in rows from left to right, in letters of one size. */
function inRows(attention, width, size) {
  ruler.font = tokenFont(size.font);
  const layout = { font: size.font, line: size.line, width, left: [], widths: [], rowOf: [], rows: [] };
  for (const [name, { first, count }] of attention.parts) {
    let x = width; // so that a part begins a row
    for (let token = first; token < first + count; token += 1) {
      const text = shortened(visible(attention.tokens[token]), 60);
      const letters = Math.max(ruler.measureText(text).width, TAG_LETTER * (attention.tags[token]?.length ?? 0));
      const own = clamp(Math.ceil(letters) + 2 * PADDING, 26, Math.min(WIDEST, width));
      if (x + own > width) {
        layout.rows.push({ part: token === first ? name : null, first: token, last: token });
        x = 0;
      }
      layout.left.push(x);
      layout.widths.push(own);
      layout.rowOf.push(layout.rows.length - 1);
      layout.rows.at(-1).last = token;
      x += own + GAP;
    }
  }
  return layout;
}

function place(layout, named) {
  layout.above = layout.rows.length === 1 ? 170 : layout.rows.length < 5 ? 100 : 56;
  let top = 0;
  for (const row of layout.rows) {
    row.heading = named && row.part !== null ? 26 : 0;
    row.top = top;
    row.tokens = top + row.heading + layout.above;
    row.bottom = row.tokens + layout.line + BELOW;
    top = row.bottom;
  }
  layout.height = top;
  if (layout.rows.length === 1) centre(layout);
}

function centre(layout) {
  const free = layout.width - layout.left.at(-1) - layout.widths.at(-1);
  layout.left = layout.left.map((x) => x + Math.max(0, free / 2));
}

/** Where arcs meet a token. */
function middle(layout, token) {
  return layout.left[token] + layout.widths[token] / 2;
}

/** The token of a row nearest to a place. */
function nearest(layout, row, x) {
  let best = layout.rows[row].first;
  for (let token = best; token <= layout.rows[row].last; token += 1) {
    if (Math.abs(middle(layout, token) - x) < Math.abs(middle(layout, best) - x)) best = token;
  }
  return best;
}
