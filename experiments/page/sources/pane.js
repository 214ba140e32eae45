// One model's column: its prediction, its choices, its weights as arcs or as a matrix.

class Pane {
  /** `changed()` hears that the address must be written, `pointed(token)` that a token lights up. */
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
    this.controls = new Controls(find(".controls"), (what) => this.choose(what));
    this.arcs = new ArcView(find(".arc-view"), (token, how) => this.point(token, how));
    this.matrix = new MatrixView(find(".matrix-view"), (...cell) => this.cell(...cell));
    this.overview = new Overview(find(".overview"), (layer, head) => this.choose({ layer, head, relation: ALL }));
    this.tip = find(".tip");
    this.status = find(".status");
  }

  /** Show a text in a view, as far as possible with the same choices as before. */
  show(text, view) {
    this.attentions[text] ??= new Attention(this.model.results[text]);
    const fresh = this.attention !== this.attentions[text];
    this.attention = this.attentions[text];
    this.view = view;
    if (fresh) {
      this.hovered = null;
      showPrediction(this.root.querySelector(".prediction"), this.attention.prediction);
    }
    this.settle();
    this.root.querySelector(".arc-view").hidden = view !== "arcs";
    this.root.querySelector(".matrix-view").hidden = view !== "matrix";
    this.root.querySelector(".zoom").hidden = view !== "matrix";
    this.root.querySelector("label.threshold").hidden = view !== "arcs";
    if (fresh) this.overview.show(this.attention);
    this.refresh();
  }

  /** Replace choices that this text does not have. */
  settle() {
    const { attention, choice } = this;
    const among = (value, values, fallback) => (values.includes(value) ? value : fallback);
    choice.layer = among(choice.layer, attention.layers(), attention.layers().at(-1));
    choice.relation = among(choice.relation, [ALL, ...attention.relations(choice.layer)], ALL);
    choice.head = among(choice.head, [ALL, ...attention.heads(choice.layer, choice.relation)], ALL);
    choice.token = Number.isInteger(choice.token) && choice.token in attention.tokens ? choice.token : null;
  }

  choose({ zoom, ...what }) {
    if (zoom !== undefined) return this.matrix.setZoom(zoom);
    Object.assign(this.choice, what.threshold === undefined ? { threshold: null, ...what } : what);
    this.settle();
    this.refresh();
    return this.changed();
  }

  refresh() {
    const { layer, head, relation } = this.choice;
    this.selection = this.attention.select(layer, head, relation);
    const threshold = clamp(this.choice.threshold ?? this.usualThreshold(), 0, this.selection.largest);
    this.controls.show(this.attention, this.choice, this.selection, threshold);
    this.overview.mark(layer, head, relation);
    if (this.view === "arcs") this.arcs.show(this.attention, this.selection, threshold);
    else this.matrix.show(this.attention, this.selection);
    this.root.querySelector(".edges").textContent = this.edgesNote();
    this.light();
  }

  usualThreshold() {
    const few = this.selection.thresholdFor(EDGES_PER_TOKEN * this.attention.tokens.length);
    return Math.max(few, LEAST_SHARE * this.selection.largest);
  }

  /** How many edges are to be seen, and why not all. */
  edgesNote() {
    const figure = (count) => count.toLocaleString("en");
    const { kept } = this.attention;
    const { total } = this.selection;
    const notes = [`${figure(total)} edges.`];
    if (this.view === "arcs") notes[0] = `${figure(this.arcs.count)} of ${figure(total)} edges weigh that much.`;
    if (this.view === "arcs" && this.arcs.count > MOST_DRAWN) notes.push(`Where they crowd, only the strongest are drawn.`);
    if (kept) notes.push(`The text has more edges than a page can hold: for each token and head the ${kept} strongest are here.`);
    return notes.join(" ");
  }

  /** A token under the mouse, or with the focus; the mouse goes before. */
  point(token, how) {
    if (how === "hover") this.hovered = token;
    else {
      this.choice.token = token;
      this.hovered = null;
      this.changed();
    }
    this.light();
    this.pointed(this.lit());
  }

  lit() {
    return this.hovered ?? this.choice.token;
  }

  light() {
    const token = this.lit();
    if (this.view === "arcs" && token !== this.arcs.active) this.arcs.light(token);
    showIncoming(this.root.querySelector(".incoming"), this.attention, this.selection, token);
  }

  /** Show what another pane shows, if the texts have the same tokens. */
  follow(token, attention) {
    if (attention.tokens.length !== this.attention.tokens.length) return;
    if (attention.tokens.some((text, place) => text !== this.attention.tokens[place])) return;
    this.hovered = token;
    this.light();
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
    showIncoming(this.root.querySelector(".incoming"), this.attention, this.selection, this.lit());
  }

  /** In words: which edges lead from one token to another. */
  edgeText(target, source) {
    const name = (token) => `“\u2068${shortened(visible(this.attention.tokens[token]), 30)}\u2069”`;
    const edges = this.selection.incoming(target).filter((edge) => edge.source === source);
    const weights = edges.map(({ relation, weight }) => `${decimals(weight)} (${relation})`).join(", ");
    return `${name(target)} looks at ${name(source)}: ${weights || "no edge"}`;
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

  unprint() {
    (this.view === "arcs" ? this.arcs : this.matrix).unprint();
  }
}
