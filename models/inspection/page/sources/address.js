// The view in the address: #text=2&view=matrix&layer=1&head=4&token=5, with &unit=words if sub-words are joined; the
// second model's keys end in ".2".

const PANE_KEYS = ["layer", "head", "relation", "threshold", "token", "edges"];
const NUMERIC = new Set(["layer", "head", "threshold", "token", "text"]);

function suffix(pane) {
  return pane === 0 ? "" : `.${pane + 1}`;
}

function parseValue(key, value) {
  if (key === "edges") return value.split(",").map((ends) => ends.split("-").map(Number));
  if (!NUMERIC.has(key) || value === ALL) return value;
  const number = Number(value);
  return value !== "" && Number.isFinite(number) ? number : null;
}

/** The view that an address describes; missing and invalid values are null. */
function readAddress(hash, panes) {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const read = (key, name) => (parameters.has(name) ? parseValue(key, parameters.get(name)) : null);
  return {
    text: read("text", "text"),
    view: read("view", "view"),
    unit: read("unit", "unit"),
    panes: Array.from({ length: panes }, (_, pane) =>
      Object.fromEntries(PANE_KEYS.map((key) => [key, read(key, key + suffix(pane))])),
    ),
  };
}

function formatValue(key, value) {
  if (key === "edges") return value.map((ends) => ends.join("-")).join(",");
  return key === "threshold" ? Number(value.toPrecision(3)) : value;
}

function writeAddress(state) {
  const parts = new URLSearchParams({ text: state.text, view: state.view });
  if (state.unit === "words") parts.set("unit", "words");
  state.panes.forEach((pane, index) => {
    for (const key of PANE_KEYS) {
      const value = pane[key];
      if (value === null || value.length === 0) continue;
      parts.set(key + suffix(index), formatValue(key, value));
    }
  });
  history.replaceState(null, "", `#${parts}`);
}
