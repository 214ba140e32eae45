// The controls of one pane: layer, relation, head, threshold, cell size; and the legend of relations.

// The default threshold keeps so many edges per token, of at least this share of the largest weight.
const EDGES_PER_TOKEN = 2;
const LEAST_SHARE = 0.05;

class Controls {
  /** `onChange(choice)` gets a choice: {layer}, {relation}, {head}, {threshold} or {zoom}. */
  constructor(root, onChange) {
    this.root = root;
    this.fields = Object.fromEntries(
      ["layer", "relation", "head", "threshold", "zoom"].map((name) => [name, root.querySelector(`[name=${name}]`)]),
    );
    this.output = root.querySelector(".threshold output");
    this.legend = root.parentElement.querySelector(".legend");
    for (const name of ["layer", "relation", "head"]) {
      this.fields[name].addEventListener("change", ({ target }) => {
        const value = target.value;
        onChange({ [name]: name === "relation" || value === ALL ? value : Number(value) });
      });
    }
    this.fields.threshold.addEventListener("input", () => onChange({ threshold: this.threshold() }));
    this.fields.zoom.addEventListener("input", () => onChange({ zoom: this.fields.zoom.value / 100 }));
  }

  /** The threshold; the slider is finer for small weights, which are frequent. */
  threshold() {
    return this.largest * (this.fields.threshold.value / 100) ** 2;
  }

  show(attention, choice, selection, threshold) {
    const { layer, relation, head } = choice;
    this.largest = selection.largest;
    fillSelect(this.fields.layer, attention.layers().map((number) => [number, number]), layer);
    const relations = attention.relations(layer);
    fillSelect(this.fields.relation, [[ALL, "all"], ...relations.map((name) => [name, name])], relation);
    const heads = attention.heads(layer, relation);
    const named = heads.map((number) => [number, `${number} · ${unique(attention.selectMaps(layer, number, relation).map((map) => map.relation)).join(", ")}`]);
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
