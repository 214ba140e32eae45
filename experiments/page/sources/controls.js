// The choices of one pane: layer, relation, head, threshold, cell size; and the legend of relations.

// What the threshold leaves when nobody has moved it: so many edges, of at least this share of the heaviest.
const EDGES_PER_TOKEN = 2;
const LEAST_SHARE = 0.05;

class Controls {
  /** `changed(what)` hears of a choice: {layer}, {relation}, {head}, {threshold} or {zoom}. */
  constructor(root, changed) {
    this.root = root;
    this.fields = Object.fromEntries(
      ["layer", "relation", "head", "threshold", "zoom"].map((name) => [name, root.querySelector(`[name=${name}]`)]),
    );
    this.output = root.querySelector(".threshold output");
    this.legend = root.parentElement.querySelector(".legend");
    for (const name of ["layer", "relation", "head"]) {
      this.fields[name].addEventListener("change", ({ target }) => {
        const value = target.value;
        changed({ [name]: name === "relation" || value === ALL ? value : Number(value) });
      });
    }
    this.fields.threshold.addEventListener("input", () => changed({ threshold: this.threshold() }));
    this.fields.zoom.addEventListener("input", () => changed({ zoom: this.fields.zoom.value / 100 }));
  }

  /** Small weights are many: the slider is finer there. */
  threshold() {
    return this.largest * (this.fields.threshold.value / 100) ** 2;
  }

  show(attention, choice, selection, threshold) {
    const { layer, relation, head } = choice;
    this.largest = selection.largest;
    fillSelect(this.fields.layer, attention.layers().map((own) => [own, own]), layer);
    const relations = attention.relations(layer);
    fillSelect(this.fields.relation, [[ALL, "all"], ...relations.map((name) => [name, name])], relation);
    const heads = attention.heads(layer, relation);
    const named = heads.map((own) => [own, `${own} · ${distinct(attention.chosen(layer, own, relation).map((map) => map.relation)).join(", ")}`]);
    fillSelect(this.fields.head, [[ALL, heads.length > 1 ? "all, their mean" : "all"], ...named], head);
    const share = this.largest ? Math.sqrt(threshold / this.largest) : 0;
    this.fields.threshold.value = Math.round(100 * share);
    this.output.textContent = decimals(threshold);
    this.fields.threshold.setAttribute("aria-valuetext", decimals(threshold));
    this.legend.replaceChildren(...selection.groups.map((group) => legendEntry(group.relation)));
  }
}

function legendEntry(relation) {
  const line = element("span", { className: "line" });
  line.style.setProperty("--relation", relationVariable(relation));
  return element("li", {}, line, element("span", { textContent: relation }));
}
