// DOM elements. Text of a corpus becomes text content, never markup.

function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

/** The element that a node's colours depend on: the root of the page, or the host of a view in a notebook. */
function hostOf(node) {
  return node.getRootNode().host ?? document.documentElement;
}

function isPrinting(node) {
  return "print" in hostOf(node).dataset;
}

function fillSelect(select, options, value) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value, textContent: text })));
  select.value = value;
}

const INVISIBLE = new Map([["", "∅"], [" ", "␣"], ["\n", "⏎"], ["\t", "⇥"]]);

/** Replace empty tokens and white space by symbols. */
function showInvisible(token) {
  return INVISIBLE.get(token) ?? (token.trim() === "" ? "␣".repeat(token.length) : token);
}

function shorten(text, most) {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

/** Parts of a name between which a line may break: after dots, slashes, colons and underscores. */
function breakable(name) {
  return name.split(/(?<=[./:_])/u).flatMap((part, place) => (place ? [element("wbr"), part] : [part]));
}

/** Whether most letters are of scripts that run from right to left. */
function isRightToLeft(text) {
  const count = (letters) => (text.match(letters) ?? []).length;
  const leftwards = count(/\p{Script=Hebrew}|\p{Script=Arabic}|\p{Script=Syriac}|\p{Script=Thaana}|\p{Script=Nko}|\p{Script=Adlam}/gu);
  return 2 * leftwards > count(/\p{L}/gu);
}

/** A weight with two significant digits. */
function decimals(weight) {
  if (weight === 0) return "0";
  if (weight >= 0.0995) return weight.toFixed(2);
  return weight >= 0.000095 ? weight.toFixed(1 - Math.floor(Math.log10(weight))) : weight.toExponential(0);
}

/** A weight in three characters, for below a token: .05 */
function shortDecimals(weight) {
  return weight >= 0.995 ? weight.toFixed(1) : weight.toFixed(2).replace(/^0/, "");
}

function clamp(value, least, most) {
  return Math.min(Math.max(value, least), most);
}
