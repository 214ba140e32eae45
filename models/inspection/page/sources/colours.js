// A colour and a dash for each relation, the same in every pane; readable for the colour-blind and in greyscale.

const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [14, 4], [1, 5]];
const relationNumbers = new Map();

function relationNumber(relation) {
  if (!relationNumbers.has(relation)) relationNumbers.set(relation, relationNumbers.size % DASHES.length);
  return relationNumbers.get(relation);
}

/** The CSS variable with a relation's colour. */
function relationVariable(relation) {
  return `var(--relation-${relationNumber(relation)})`;
}

let readColours = null;

/** Colours for the canvas: those of the current scheme, or of print. */
function currentColours() {
  readColours ??= coloursOf(getComputedStyle(document.documentElement));
  return readColours;
}

function forgetColours() {
  readColours = null;
}

function coloursOf(style) {
  const read = (name) => style.getPropertyValue(name).trim();
  const relations = DASHES.map((_, number) => read(`--relation-${number}`));
  const relation = (name) => relations[relationNumber(name)];
  return { ink: read("--ink"), soft: read("--soft"), line: read("--line"), relation };
}

/** Red, green and blue of "#rrggbb". */
function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}
