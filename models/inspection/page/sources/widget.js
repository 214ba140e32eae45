// The view in a notebook: a module whose `render` anywidget calls with the model that Python synchronizes.

const SIDES = ["", "other_"]; // prefixes of the names of a pane's choices
const CHOICES = ["layer", "head", "relation", "token", "edges"];
const MAY_BE_ALL = new Set(["head", "relation"]); // none in Python

function readModel(model, panes) {
  const read = (side) => (key) => [key, model.get(side + key) ?? (MAY_BE_ALL.has(key) ? ALL : null)];
  const choices = SIDES.slice(0, panes).map((side) => Object.fromEntries(CHOICES.map(read(side))));
  return { text: model.get("text"), view: model.get("view"), panes: choices };
}

function writeModel(model, { text, view, panes }) {
  const changes = { text, view };
  panes.forEach((choice, index) => {
    for (const key of CHOICES) changes[SIDES[index] + key] = choice[key] === ALL && MAY_BE_ALL.has(key) ? null : choice[key];
  });
  const isNew = ([name, value]) => JSON.stringify(model.get(name)) !== JSON.stringify(value);
  const news = Object.entries(changes).filter(isNew);
  for (const change of news) model.set(...change);
  if (news.length) model.save_changes();
}

/** Red, green and blue of a colour in any notation. */
function paint(colour) {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data.slice(0, 3);
}

/** Choose light or dark as the notebook does, whose text is light on a dark ground. */
function followScheme(host, view) {
  const [red, green, blue] = paint(getComputedStyle(host.parentElement).color);
  const scheme = red + green + blue > 384 ? "dark" : "light";
  if (host.style.colorScheme === scheme) return;
  host.style.colorScheme = scheme;
  view.recolour();
}

function render({ model, el }) {
  const host = element("div");
  host.dataset.lmSuppressShortcuts = "true"; // of JupyterLab, whose arrow keys move between cells
  el.append(host);
  const root = host.attachShadow({ mode: "open" });
  const markup = new DOMParser().parseFromString(MARKUP, "text/html").body;
  for (const node of markup.querySelectorAll(".page-only")) node.remove();
  root.append(element("style", { textContent: STYLE }), ...markup.childNodes);
  const ending = new AbortController();
  const { signal } = ending;
  const data = JSON.parse(model.get("data"));
  const view = new View(root, data, { changed: (state) => writeModel(model, state), signal });
  const restore = () => {
    const state = readModel(model, view.panes.length);
    const { text, view: name, panes } = view.state();
    const shown = { text, view: name, panes: panes.map((choice) => Object.fromEntries(CHOICES.map((key) => [key, choice[key]]))) };
    if (JSON.stringify(state) !== JSON.stringify(shown)) view.restore(state);
  };
  // JupyterLab adds the element to its document later; until then it has neither a size nor colours
  const appearing = new ResizeObserver(() => {
    appearing.disconnect();
    requestAnimationFrame(() => {
      followScheme(host, view);
      view.restore(readModel(model, view.panes.length));
    });
  });
  appearing.observe(host);
  host.addEventListener("pointerenter", () => followScheme(host, view));
  addEventListener("beforeprint", () => view.print(true), { signal });
  addEventListener("afterprint", () => view.print(false), { signal });
  let waiting; // for the events of other names that change at the same time
  const update = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => host.isConnected && restore(), 0);
  };
  const names = ["text", "view", ...view.panes.flatMap((_, index) => CHOICES.map((key) => SIDES[index] + key))];
  for (const name of names) model.on(`change:${name}`, update);
  return () => {
    for (const name of names) model.off(`change:${name}`, update);
    ending.abort();
  };
}

export default { render };
