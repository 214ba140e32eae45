// The incoming edges of one token, or the sums of several, as a table, strongest first.

const MOST_ROWS = 14;

/** Show the edges into tokens; `isMarked(source, target)` says which are selected. */
function showIncoming(root, attention, selection, targets, isMarked) {
  const [title, hint, table, rest] = ["h3", ".hint", "table", ".rest"].map((name) => root.querySelector(name));
  table.hidden = rest.hidden = targets.length === 0;
  hint.hidden = targets.length === 1;
  if (targets.length === 0) {
    title.textContent = "Incoming edges";
    hint.textContent = "Hover over a token, or focus it with the keyboard, to see what it attends to. Drag over several, or hold Shift, to see the sum of their weights.";
    return;
  }
  if (targets.length > 1) hint.textContent = `Sums of the weights of ${targets.length} tokens.`;
  const token = targets[0];
  const incoming = targets.length > 1 ? selection.into(targets) : selection.incoming(token);
  const most = incoming[0]?.weight || 1;
  const text = targets.map((each) => showInvisible(attention.tokens[each])).join(" ");
  title.replaceChildren("“", element("bdi", { textContent: shorten(text, 40) }), `” attend${targets.length > 1 ? "" : "s"} to`);
  table.tBodies[0].replaceChildren(...incoming.slice(0, MOST_ROWS).map((edge) => incomingRow(attention, edge, most, { named: selection.groups.length > 1, marked: isMarked(edge.source, token) })));
  rest.textContent = incoming.length ? describeRest(incoming.slice(MOST_ROWS)) : "No incoming edges.";
  table.hidden = incoming.length === 0;
  table.tHead.rows[0].cells[0].textContent = attention.joined ? "word" : "token";
}

function incomingRow(attention, { source, target, weight, relation }, most, { named, marked }) {
  const row = element("tr", { title: relation });
  const bar = element("span", { className: "bar" });
  bar.style.setProperty("--share", `${(100 * weight) / most}%`);
  row.style.setProperty("--relation", relationVariable(relation));
  const mark = element("button", { type: "button", className: "mark", title: "Select this edge", ariaPressed: String(marked) });
  mark.append(element("bdi", { textContent: shorten(showInvisible(attention.tokens[source]), 28) }));
  Object.assign(mark.dataset, { source, target });
  const figure = element("div", { className: "figure" }, bar, element("span", { textContent: decimals(weight) }));
  row.append(
    element("td", {}, mark),
    element("td", { className: "place", textContent: attention.position(source) }),
    element("td", {}, figure),
  );
  const deprel = attention.deprel(source, target);
  if (deprel) row.firstChild.append(element("small", { className: "deprel", textContent: deprel }));
  if (named) row.firstChild.append(element("small", { textContent: relation }));
  return row;
}

function describeRest(edges) {
  if (edges.length === 0) return "";
  const total = edges.reduce((all, { weight }) => all + weight, 0);
  return `and ${edges.length.toLocaleString("en")} more, ${decimals(total)} together`;
}
