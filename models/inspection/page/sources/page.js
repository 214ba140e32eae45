// The page: reads its data, makes a pane for each model, and synchronizes the address with the view.

class Page {
  constructor(data) {
    this.data = data;
    this.text = 0;
    this.view = "arcs";
    this.select = document.querySelector("[name=text]");
    const callbacks = (index) => ({ changed: () => this.write(), pointed: (token) => this.follow(index, token) });
    this.panes = data.models.map((model, index) => new Pane(model, callbacks(index)));
    const main = document.querySelector("main");
    main.classList.toggle("two", this.panes.length > 1);
    main.append(...this.panes.map((pane) => pane.root));
    this.listen();
    if (data.live) new LiveForm(document.querySelector("form.live"), data.live, (results) => this.add(results));
    this.restore();
  }

  count() {
    return this.data.models[0].results.length;
  }

  listen() {
    this.select.addEventListener("change", () => this.go(Number(this.select.value)));
    document.querySelector(".previous").addEventListener("click", () => this.go(this.text - 1));
    document.querySelector(".next").addEventListener("click", () => this.go(this.text + 1));
    for (const choice of document.querySelectorAll("[name=view]")) {
      choice.addEventListener("change", () => {
        this.view = choice.value;
        this.show();
      });
    }
    addEventListener("hashchange", () => this.restore());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  /** Show the view of the address, scrolled to its token. */
  restore() {
    const view = readAddress(location.hash, this.panes.length);
    if (Number.isInteger(view.text)) this.text = view.text;
    if (["arcs", "matrix"].includes(view.view)) this.view = view.view;
    view.panes.forEach((choice, index) => Object.assign(this.panes[index].choice, choice));
    this.show();
    for (const pane of this.panes) pane.arcs.reveal();
  }

  go(text) {
    this.text = text;
    for (const pane of this.panes) Object.assign(pane.choice, { token: null, threshold: null });
    this.show();
  }

  add(results) {
    results.forEach((result, index) => this.data.models[index].results.push(result));
    this.go(this.count() - 1);
  }

  show() {
    const empty = this.count() === 0;
    document.querySelector(".page-controls").hidden = document.querySelector("main").hidden = empty;
    if (empty) return;
    this.text = clamp(this.text, 0, this.count() - 1);
    this.fillTexts();
    for (const choice of document.querySelectorAll("[name=view]")) choice.checked = choice.value === this.view;
    for (const pane of this.panes) pane.show(this.text, this.view);
    const active = this.panes.findIndex((pane) => pane.choice.token !== null);
    if (active >= 0) this.follow(active, this.panes[active].choice.token);
    this.write();
  }

  fillTexts() {
    const titles = this.data.models[0].results.map(({ title }, index) => [index, `${index + 1}. ${shorten(title, 70)}`]);
    fillSelect(this.select, titles, this.text);
    document.querySelector(".texts").hidden = this.count() < 2;
    document.querySelector(".previous").disabled = this.text === 0;
    document.querySelector(".next").disabled = this.text === this.count() - 1;
  }

  /** Write the address after a delay: a slider changes it often, and browsers are slow to do so. */
  write() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      writeAddress({ text: this.text, view: this.view, panes: this.panes.map((pane) => pane.choice) });
    }, 120);
  }

  follow(index, token) {
    this.panes.forEach((pane, other) => other === index || pane.follow(token, this.panes[index].attention));
  }

  recolour() {
    forgetColours();
    if (this.count()) for (const pane of this.panes) pane.recolour();
  }

  print(begins) {
    if (begins) document.documentElement.dataset.print = "yes";
    else delete document.documentElement.dataset.print;
    forgetColours();
    if (this.count()) for (const pane of this.panes) begins ? pane.print() : pane.restoreScreen();
  }
}

new Page(JSON.parse(document.getElementById("data").textContent));
performance.mark("graphattn-ready");
