// DOM elements. Text of a corpus only ever becomes text content, never markup.

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value, textContent: text })));
  select.value = chosen;
}

const INVISIBLE = new Map([["", "∅"], [" ", "␣"], ["\n", "⏎"], ["\t", "⇥"]]);

/** A token as people can see it. */
function visible(token) {
  return INVISIBLE.get(token) ?? (token.trim() === "" ? "␣".repeat(token.length) : token);
}

function shortened(text, most) {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

/** A weight with the digits that tell something. */
function decimals(weight) {
  if (weight === 0) return "0";
  if (weight >= 0.0995) return weight.toFixed(2);
  return weight >= 0.000095 ? weight.toFixed(1 - Math.floor(Math.log10(weight))) : weight.toExponential(0);
}

/** The same within few letters, as it stands below a token: .05 */
function briefly(weight) {
  return weight >= 0.995 ? weight.toFixed(1) : weight.toFixed(2).replace(/^0/, "");
}

function clamp(value, least, most) {
  return Math.min(Math.max(value, least), most);
}
