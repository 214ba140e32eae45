// The column of one model: prediction, controls, and weights as arcs or as a matrix.

class Pane {
  /** `changed()` is called when the address must change, `pointed(token)` when a token is highlighted. */
  constructor(model, { changed, pointed }) {
    this.root = document.querySelector("template").content.firstElementChild.cloneNode(true);
    this.model = model;
    this.changed = changed;
    this.pointed = pointed;
    this.choice = { layer: null, head: null, relation: null, threshold: null, token: null };
    this.hovered = null;
    this.attentions = [];
    const find = (name) => this.root.querySelector(name);
    find("h2").textContent = model.name;
    this.controls = new Controls(find(".controls"), (changes) => this.choose(changes));
    this.arcs = new ArcView(find(".arc-view"), (token, how) => this.point(token, how));
    this.matrix = new MatrixView(find(".matrix-view"), (...cell) => this.cell(...cell));
    this.overview = new Overview(find(".overview"), (layer, head) => this.choose({ layer, head, relation: ALL }));
    this.tip = find(".tip");
    this.status = find(".status");
  }

  /** Show a text in a view; keep the choices that this text has. */
  show(text, view) {
    this.attentions[text] ??= new Attention(this.model.results[text]);
    const isNew = this.attention !== this.attentions[text];
    this.attention = this.attentions[text];
    this.view = view;
    if (isNew) {
      this.hovered = null;
      showPrediction(this.root.querySelector(".prediction"), this.attention.prediction);
    }
    this.replaceInvalidChoices();
    this.root.querySelector(".arc-view").hidden = view !== "arcs";
    this.root.querySelector(".matrix-view").hidden = view !== "matrix";
    this.root.querySelector(".zoom").hidden = view !== "matrix";
    this.root.querySelector("label.threshold").hidden = view !== "arcs";
    if (isNew) this.overview.show(this.attention);
    this.refresh();
  }

  /** Replace choices that this text does not have. */
  replaceInvalidChoices() {
    const { attention, choice } = this;
    const keepOr = (value, values, fallback) => (values.includes(value) ? value : fallback);
    choice.layer = keepOr(choice.layer, attention.layers(), attention.layers().at(-1));
    choice.relation = keepOr(choice.relation, [ALL, ...attention.relations(choice.layer)], ALL);
    choice.head = keepOr(choice.head, [ALL, ...attention.heads(choice.layer, choice.relation)], ALL);
    choice.token = Number.isInteger(choice.token) && choice.token in attention.tokens ? choice.token : null;
  }

  choose({ zoom, ...changes }) {
    if (zoom !== undefined) return this.matrix.setZoom(zoom);
    Object.assign(this.choice, changes.threshold === undefined ? { threshold: null, ...changes } : changes);
    this.replaceInvalidChoices();
    this.refresh();
    return this.changed();
  }

  refresh() {
    const { layer, head, relation } = this.choice;
    this.selection = this.attention.select(layer, head, relation);
    const threshold = clamp(this.choice.threshold ?? this.defaultThreshold(), 0, this.selection.largest);
    this.controls.show(this.attention, this.choice, this.selection, threshold);
    this.overview.mark(layer, head, relation);
    if (this.view === "arcs") this.arcs.show(this.attention, this.selection, threshold);
    else this.matrix.show(this.attention, this.selection);
    this.root.querySelector(".edges").textContent = this.edgesNote();
    this.highlight();
  }

  defaultThreshold() {
    const few = this.selection.thresholdFor(EDGES_PER_TOKEN * this.attention.tokens.length);
    return Math.max(few, LEAST_SHARE * this.selection.largest);
  }

  /** How many edges are shown, and why not all. */
  edgesNote() {
    const figure = (count) => count.toLocaleString("en");
    const { kept } = this.attention;
    const { total } = this.selection;
    const notes = [`${figure(total)} edges.`];
    if (this.view === "arcs") notes[0] = `${figure(this.arcs.count)} of ${figure(total)} edges have at least this weight.`;
    if (this.view === "arcs" && this.arcs.count > MOST_DRAWN) notes.push(`Only the strongest visible ones are drawn.`);
    if (kept) notes.push(`The page contains the ${kept} strongest edges of each token and head.`);
    return notes.join(" ");
  }

  /** Highlight the token under the mouse, or else the focused one. */
  point(token, how) {
    if (how === "hover") this.hovered = token;
    else {
      this.choice.token = token;
      this.hovered = null;
      this.changed();
    }
    this.highlight();
    this.pointed(this.activeToken());
  }

  activeToken() {
    return this.hovered ?? this.choice.token;
  }

  highlight() {
    const token = this.activeToken();
    if (this.view === "arcs" && token !== this.arcs.active) this.arcs.highlight(token);
    showIncoming(this.root.querySelector(".incoming"), this.attention, this.selection, token);
  }

  /** Highlight the same token as another pane if the texts have the same tokens. */
  follow(token, attention) {
    if (attention.tokens.length !== this.attention.tokens.length) return;
    if (attention.tokens.some((text, place) => text !== this.attention.tokens[place])) return;
    this.hovered = token;
    this.highlight();
  }

  cell(target, source, place, how) {
    this.tip.hidden = target === null;
    if (target !== null) {
      const text = this.edgeText(target, source);
      this.tip.textContent = text;
      this.tip.style.left = `${Math.min(place.x + 6, innerWidth - 250)}px`;
      this.tip.style.top = `${place.y + 8}px`;
      if (how === "keys") this.status.textContent = text;
    }
    this.hovered = target;
    showIncoming(this.root.querySelector(".incoming"), this.attention, this.selection, this.activeToken());
  }

  /** Describe the edges from one token to another. */
  edgeText(target, source) {
    const name = (token) => `“\u2068${shorten(showInvisible(this.attention.tokens[token]), 30)}\u2069”`;
    const edges = this.selection.incoming(target).filter((edge) => edge.source === source);
    const deprel = this.attention.deprel(source, target);
    const weights = edges
      .map(({ relation, weight }) => `${decimals(weight)} (${[relation, deprel].filter(Boolean).join(", ")})`)
      .join(", ");
    return `${name(target)} attends to ${name(source)}: ${weights || "no edge"}`;
  }

  /** Colours have changed. */
  recolour() {
    this.overview.redraw();
    this.matrix.picture = null;
    this.matrix.draw();
    this.arcs.drawn = null;
    this.arcs.draw();
  }

  print() {
    (this.view === "arcs" ? this.arcs : this.matrix).print();
  }

  restoreScreen() {
    (this.view === "arcs" ? this.arcs : this.matrix).restoreScreen();
  }
}
