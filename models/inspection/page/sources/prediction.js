// The prediction: a label with class probabilities, tags, a text, or nothing.

const MOST_CLASSES = 8;

function showPrediction(root, prediction) {
  const { label, labels = [label], tags, text, probabilities } = prediction;
  if (!Object.keys(prediction).length) root.replaceChildren();
  else if (tags) root.replaceChildren(tagCounts(tags));
  else if (text !== undefined) root.replaceChildren(text ? verdict(text) : verdict("empty output", "none"));
  else {
    const shown = labels.length ? verdict(labels.join(", ")) : verdict("no label", "none");
    root.replaceChildren(shown, chances(new Set(labels.map(String)), probabilities));
  }
}

/** How much each branch gives to the score of the prediction; the note stands out if the weights say little about it. */
function showBranches(root, branches) {
  root.replaceChildren(branches?.text ?? "");
  if (branches?.note) root.append(element("strong", { textContent: `${branches.note}.` }));
}

function verdict(text, kind = text.length > 40 ? "long" : "") {
  return element("p", { className: `label ${kind}`, dir: "auto" }, ...breakable(text));
}

function chances(decided, probabilities) {
  const rows = Object.entries(probabilities).sort((a, b) => b[1] - a[1]);
  const list = element("ul", { className: "chances", ariaLabel: "Probabilities of the classes" });
  for (const [name, chance] of rows.slice(0, MOST_CLASSES)) {
    const bar = element("span", { className: "bar" });
    bar.style.setProperty("--share", `${100 * chance}%`);
    const row = element("li", { className: decided.has(name) ? "decided" : "" });
    row.append(
      element("span", { className: "class", dir: "auto" }, ...breakable(shorten(name, 30))),
      bar,
      element("span", { className: "figure", textContent: `${(100 * chance).toFixed(1)} %` }),
    );
    list.append(row);
  }
  const rest = rows.slice(MOST_CLASSES).reduce((total, [, chance]) => total + chance, 0);
  const more = rows.length - MOST_CLASSES;
  if (more > 0) list.append(element("li", { className: "more", textContent: `${more} more classes: ${(100 * rest).toFixed(1)} %` }));
  return list;
}

function tagCounts(tags) {
  const counts = new Map();
  for (const tag of tags) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  const list = element("ul", { className: "tags", ariaLabel: "Tags" });
  for (const [tag, count] of [...counts].sort((a, b) => b[1] - a[1]).slice(0, 24)) {
    list.append(element("li", { textContent: `${tag} ${count}` }));
  }
  return list;
}
