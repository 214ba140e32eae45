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

const readColours = new WeakMap();

/** Colours for canvases below a node: those of the current scheme, or of print. */
function currentColours(node) {
  const host = hostOf(node);
  if (!readColours.has(host)) readColours.set(host, coloursOf(node.parentElement));
  return readColours.get(host);
}

function forgetColours(node) {
  readColours.delete(hostOf(node));
}

/** The values of variables, which a browser computes only for a property of an element. */
function coloursOf(parent) {
  const probe = element("span");
  parent.append(probe);
  const read = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const relations = DASHES.map((_, number) => read(`--relation-${number}`));
  const relation = (name) => relations[relationNumber(name)];
  const colours = { ink: read("--ink"), soft: read("--soft"), line: read("--line"), card: read("--card"), relation };
  probe.remove();
  return colours;
}

/** Red, green and blue of "rgb(1, 2, 3)". */
function channels(colour) {
  return colour.match(/\d+/g).map(Number);
}
