// The column of one model: prediction, controls, and weights as arcs or as a matrix.

class Pane {
  /**
   * `root` is a new element; `changed()` is called when a choice has changed, `pointed(token)` when a token is
   * highlighted; `signal` ends listening to the window.
   */
  constructor(root, model, { changed, pointed, signal }) {
    this.root = root;
    this.model = model;
    this.changed = changed;
    this.pointed = pointed;
    this.choice = { layer: null, head: null, relation: null, threshold: null, token: null, edges: [] };
    this.hovered = null;
    this.group = []; // several tokens, whose weights are summed
    this.attentions = [];
    const find = (name) => this.root.querySelector(name);
    find("h2").textContent = model.name;
    this.controls = new Controls(find(".controls"), (changes) => this.choose(changes));
    this.arcs = new ArcView(find(".arc-view"), (token, how) => this.point(token, how), signal);
    const mark = (source, target) => this.mark(source, target);
    this.matrix = new MatrixView(find(".matrix-view"), (...cell) => this.cell(...cell), mark);
    this.overview = new Overview(find(".overview"), (layer, head) => this.choose({ layer, head, relation: ALL }));
    this.tip = find(".tip");
    this.status = find(".status");
    this.incoming = find(".incoming");
    this.incoming.addEventListener("click", ({ target }) => {
      const button = target.closest(".mark");
      if (!button) return;
      const ends = [Number(button.dataset.source), Number(button.dataset.target)];
      this.mark(...ends);
      button.setAttribute("aria-pressed", String(this.isMarked(...ends)));
    });
    find(".exports").addEventListener("click", ({ target }) => {
      const { format } = target.dataset;
      if (format) savePicture(this.toPicture(), `attention.${format}`);
    });
  }

  /** Show a text in a view, by token or by word; keep the choices that this text has. */
  show(text, view, unit) {
    const joined = unit === "words" && this.hasPieces(text);
    const attentions = (this.attentions[text] ??= {});
    const attention = (attentions[joined] ??= new Attention(this.model.results[text], { joined }));
    const isNew = this.attention !== attention;
    this.attention = attention;
    this.view = view;
    if (isNew) {
      this.hovered = null;
      this.group = [];
      showPrediction(this.root.querySelector(".prediction"), this.attention.prediction);
      showBranches(this.root.querySelector(".branches"), this.attention.branches);
    }
    this.replaceInvalidChoices();
    this.root.querySelector(".arc-view").hidden = view !== "arcs";
    this.root.querySelector(".matrix-view").hidden = view !== "matrix";
    this.root.querySelector(".zoom").hidden = view !== "matrix";
    this.root.querySelector("label.threshold").hidden = view !== "arcs";
    if (isNew) this.overview.show(this.attention);
    this.refresh();
  }

  /** Whether words of a text have several tokens. */
  hasPieces(text) {
    return Object.keys(this.model.results[text].word_texts).length > 0;
  }

  /** Replace choices that this text does not have. */
  replaceInvalidChoices() {
    const { attention, choice } = this;
    const keepOr = (value, values, fallback) => (values.includes(value) ? value : fallback);
    choice.layer = keepOr(choice.layer, attention.layers(), attention.layers().at(-1));
    choice.relation = keepOr(choice.relation, [ALL, ...attention.relations(choice.layer)], ALL);
    choice.head = keepOr(choice.head, [ALL, ...attention.heads(choice.layer, choice.relation)], ALL);
    const isToken = (token) => Number.isInteger(token) && token in attention.tokens;
    choice.token = isToken(choice.token) ? choice.token : null;
    choice.edges = (choice.edges ?? []).filter((ends) => ends.length === 2 && ends.every(isToken));
  }

  isMarked(source, target) {
    return this.choice.edges.some(([from, to]) => from === source && to === target);
  }

  /** Select an edge, or no longer. */
  mark(source, target) {
    const others = this.choice.edges.filter(([from, to]) => from !== source || to !== target);
    this.choice.edges = this.isMarked(source, target) ? others : [...others, [source, target]];
    (this.view === "arcs" ? this.arcs : this.matrix).mark(this.choice.edges);
    this.changed();
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
    if (this.view === "arcs") this.arcs.show(this.attention, this.selection, threshold, this.choice.edges);
    else this.matrix.show(this.attention, this.selection, this.choice.edges);
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
    const groups = this.selection.groups.length;
    if (this.view === "arcs" && groups > 1 && this.arcs.count) notes.push(`Colours and dashes tell the ${groups} relations apart.`);
    if (this.choice.head === ALL && this.selection.heads > 1) notes.push(`Weights are means over ${this.selection.heads} heads.`);
    if (this.selection.isAlone()) notes.push(this.whyEmpty());
    if (this.attention.joined) notes.push("A word attends with the mean of its tokens, to the sum over the tokens of the other.");
    if (kept) notes.push(`The page contains the ${kept} strongest edges of each token and head.`);
    return notes.join(" ");
  }

  /** Why there are no arcs, and what to do. */
  whyEmpty() {
    const narrow = this.selection.groups.some(({ relation }) => relation.includes("N/"));
    const why = narrow ? " A window of N/16 is one token wide below 32 tokens, N/8 below 16 and N/4 below 8." : "";
    return `Every head shown here sees one token, itself.${why} Choose another layer or relation${narrow ? ", or a longer text" : ""}.`;
  }

  /** Highlight the token under the mouse, or else the focused one. */
  point(token, how) {
    if (how === "group") {
      this.group = token;
      this.hovered = null;
    } else if (how === "hover") this.hovered = this.group.length ? null : token;
    else {
      this.group = [];
      this.choice.token = token;
      this.hovered = null;
      if (how === "release") {
        this.choice.edges = [];
        this.arcs.mark([]);
      }
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
    if (this.view === "arcs" && (token !== this.arcs.active || this.group !== this.arcs.group)) this.arcs.highlight(token, this.group);
    this.showIncoming(token);
  }

  showIncoming(token) {
    const targets = this.group.length ? this.group : [token].filter((each) => each !== null);
    showIncoming(this.incoming, this.attention, this.selection, targets, (...ends) => this.isMarked(...ends));
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
      const { left, top, width } = this.root.getBoundingClientRect();
      this.tip.style.left = `${Math.min(place.x - left + 6, width - 250)}px`;
      this.tip.style.top = `${place.y - top + 8}px`;
      if (how === "keys") this.status.textContent = text;
    }
    this.hovered = target;
    this.showIncoming(this.activeToken());
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

  /** What is shown, to save: its layer, head and relations above the arcs or the matrix. */
  toPicture() {
    const { layer, head } = this.choice;
    const heading = `layer ${layer} · ${head === ALL ? "mean of all heads" : `head ${head}`}`;
    const relations = this.selection.groups.map((group) => group.relation);
    const { width, height, draw } = (this.view === "arcs" ? this.arcs : this.matrix).toPicture();
    const notes = [this.attention.branches?.text, this.attention.branches?.note].filter(Boolean);
    return withHeading({ width, height, draw }, [this.model.name, heading].filter(Boolean).join(" · "), relations, notes, currentColours(this.root));
  }

  print() {
    (this.view === "arcs" ? this.arcs : this.matrix).print();
  }

  restoreScreen() {
    (this.view === "arcs" ? this.arcs : this.matrix).restoreScreen();
  }
}
