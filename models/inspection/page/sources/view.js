// The view of some texts by one or two models, on the page or in a notebook: panes, and controls for all of them.

class View {
  /**
   * `root` is the document or shadow root with the markup; `changed(state)` is called when what is shown has changed;
   * `signal` ends listening to the window.
   */
  constructor(root, data, { changed, signal }) {
    this.root = root;
    this.data = data;
    this.changed = changed;
    this.text = 0;
    this.view = "arcs";
    this.unit = "tokens";
    this.join = root.querySelector("[name=join]"); // not in notebooks, where choices are numbers of tokens
    this.select = root.querySelector("[name=text]");
    const template = root.querySelector("template").content.firstElementChild;
    this.panes = data.models.map((model, index) => {
      const callbacks = { changed: () => this.changed(this.state()), pointed: (token) => this.follow(index, token) };
      return new Pane(template.cloneNode(true), model, { ...callbacks, signal });
    });
    this.main = root.querySelector("main");
    this.main.classList.toggle("two", this.panes.length > 1);
    this.main.append(...this.panes.map((pane) => pane.root));
    this.listen(signal);
  }

  count() {
    return this.data.models[0].results.length;
  }

  listen(signal) {
    this.select.addEventListener("change", () => this.go(Number(this.select.value)));
    this.root.querySelector(".previous").addEventListener("click", () => this.go(this.text - 1));
    this.root.querySelector(".next").addEventListener("click", () => this.go(this.text + 1));
    for (const choice of this.root.querySelectorAll("[name=view]")) {
      choice.addEventListener("change", () => {
        this.view = choice.value;
        this.show();
      });
    }
    this.join?.addEventListener("change", () => {
      this.unit = this.join.checked ? "words" : "tokens";
      this.go(this.text);
    });
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", () => this.recolour(), { signal });
  }

  /** What is shown: the text, the view, and the choices of each pane. */
  state() {
    return { text: this.text, view: this.view, unit: this.unit, panes: this.panes.map((pane) => pane.choice) };
  }

  /** Show a state, scrolled to its token; missing and invalid values are replaced. */
  restore(state) {
    if (Number.isInteger(state.text)) this.text = state.text;
    if (["arcs", "matrix"].includes(state.view)) this.view = state.view;
    this.unit = state.unit === "words" ? "words" : "tokens";
    state.panes.forEach((choice, index) => Object.assign(this.panes[index].choice, choice));
    this.show();
    for (const pane of this.panes) pane.arcs.reveal();
  }

  go(text) {
    this.text = text;
    for (const pane of this.panes) Object.assign(pane.choice, { token: null, threshold: null, edges: [] });
    this.show();
  }

  add(results) {
    results.forEach((result, index) => this.data.models[index].results.push(result));
    this.go(this.count() - 1);
  }

  show() {
    const empty = this.count() === 0;
    this.root.querySelector(".page-controls").hidden = this.main.hidden = empty;
    if (empty) return;
    this.text = clamp(this.text, 0, this.count() - 1);
    this.fillTexts();
    for (const choice of this.root.querySelectorAll("[name=view]")) choice.checked = choice.value === this.view;
    if (this.join) this.join.checked = this.unit === "words";
    this.join?.parentElement.toggleAttribute("hidden", !this.panes.some((pane) => pane.hasPieces(this.text)));
    for (const pane of this.panes) pane.show(this.text, this.view, this.unit);
    const active = this.panes.findIndex((pane) => pane.choice.token !== null);
    if (active >= 0) this.follow(active, this.panes[active].choice.token);
    this.changed(this.state());
  }

  fillTexts() {
    const titles = this.data.models[0].results.map(({ title }, index) => [index, `${index + 1}. ${shorten(title, 70)}`]);
    fillSelect(this.select, titles, this.text);
    this.root.querySelector(".texts").hidden = this.count() < 2;
    this.root.querySelector(".previous").disabled = this.text === 0;
    this.root.querySelector(".next").disabled = this.text === this.count() - 1;
  }

  follow(index, token) {
    this.panes.forEach((pane, other) => other === index || pane.follow(token, this.panes[index].attention));
  }

  recolour() {
    forgetColours(this.main);
    if (this.count()) for (const pane of this.panes) pane.recolour();
  }

  print(begins) {
    const { dataset } = hostOf(this.main);
    if (begins) dataset.print = "yes";
    else delete dataset.print;
    forgetColours(this.main);
    if (this.count()) for (const pane of this.panes) begins ? pane.print() : pane.restoreScreen();
  }
}
