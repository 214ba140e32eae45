// Tokens in rows with room for arcs above, laid out by calculation, without the browser.

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

/** Left edges, widths and rows of all tokens, for a width in CSS pixels. */
function layOut(attention, width) {
  const sizes = SIZES.filter(({ most }) => attention.tokens.length <= most);
  const layouts = sizes.map((size) => breakRows(attention, width, size));
  const layout = layouts.find(({ rows }) => rows.length === attention.parts.size) ?? layouts[0];
  placeRows(layout, attention.parts.size > 1);
  return layout;
}

/** Break tokens into rows, in one font size. */
function breakRows(attention, width, size) {
  ruler.font = tokenFont(size.font);
  const layout = { font: size.font, line: size.line, width, left: [], widths: [], rowOf: [], rows: [] };
  for (const [name, { first, count }] of attention.parts) {
    let x = width; // so that a part begins a row
    for (let token = first; token < first + count; token += 1) {
      const text = shorten(showInvisible(attention.tokens[token]), 60);
      const letters = Math.max(ruler.measureText(text).width, TAG_LETTER * (attention.tags[token]?.length ?? 0));
      const tokenWidth = clamp(Math.ceil(letters) + 2 * PADDING, 26, Math.min(WIDEST, width));
      if (x + tokenWidth > width) {
        layout.rows.push({ part: token === first ? name : null, first: token, last: token });
        x = 0;
      }
      layout.left.push(x);
      layout.widths.push(tokenWidth);
      layout.rowOf.push(layout.rows.length - 1);
      layout.rows.at(-1).last = token;
      x += tokenWidth + GAP;
    }
    if (isRightToLeft(attention.tokens.slice(first, first + count).join(""))) mirror(layout, first, first + count);
  }
  return layout;
}

/** Let the rows of some tokens begin at the right. */
function mirror(layout, first, last) {
  for (let token = first; token < last; token += 1) {
    layout.left[token] = layout.width - layout.left[token] - layout.widths[token];
  }
}

function placeRows(layout, named) {
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
  const ends = [0, -1].flatMap((at) => [layout.left.at(at), layout.left.at(at) + layout.widths.at(at)]);
  const shift = (layout.width - Math.min(...ends) - Math.max(...ends)) / 2;
  layout.left = layout.left.map((x) => x + shift);
}

/** The horizontal centre of a token, where arcs end. */
function tokenCentre(layout, token) {
  return layout.left[token] + layout.widths[token] / 2;
}

/** The token of a row that is nearest to x. */
function nearestToken(layout, row, x) {
  let best = layout.rows[row].first;
  for (let token = best; token <= layout.rows[row].last; token += 1) {
    if (Math.abs(tokenCentre(layout, token) - x) < Math.abs(tokenCentre(layout, best) - x)) best = token;
  }
  return best;
}
