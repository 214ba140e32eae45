// The text with its arcs: tokens are focusable elements, arcs are drawn on canvases no larger than the window.

const MOST_ARCS = 8000; // in a text
const MOST_HEATED = 96; // highlighted sources of a focused token
const LEAST_HEAT = 0.02; // of the strongest source's weight
const MARGIN = 250; // pixels drawn above and below the window
const PAPER = 680; // pixels across a printed page

class ArcView {
  /** `onSelect(token, how)` gets "hover", "focus" or "release". */
  constructor(root, onSelect) {
    this.root = root;
    this.rows = root.querySelector(".rows");
    this.canvases = { all: root.querySelector(".arcs"), focus: root.querySelector(".focus") };
    this.onSelect = onSelect;
    this.heated = [];
    this.drawn = null;
    this.listen();
  }

  listen() {
    const tokenOf = (event) => {
      const node = event.target.closest(".token");
      return node ? Number(node.dataset.token) : null;
    };
    this.rows.addEventListener("pointerover", (event) => {
      if (event.pointerType !== "touch") this.onSelect(tokenOf(event), "hover");
    });
    this.rows.addEventListener("pointerleave", () => this.onSelect(null, "hover"));
    this.rows.addEventListener("focusin", (event) => this.onSelect(tokenOf(event), "focus"));
    this.rows.addEventListener("click", (event) => this.elements[tokenOf(event)]?.focus({ preventScroll: true }));
    this.rows.addEventListener("keydown", (event) => this.key(event, tokenOf(event)));
    new ResizeObserver(() => this.resize()).observe(this.root);
    addEventListener("scroll", () => requestAnimationFrame(() => this.draw()), { passive: true });
  }

  show(attention, selection, threshold) {
    if (attention !== this.attention) {
      this.attention = attention;
      this.active = null; // a token of another text
      this.layOut(this.width());
    }
    this.selection = selection;
    this.threshold = threshold;
    const { edges, count } = selection.strongest(threshold, MOST_ARCS);
    this.count = count;
    this.batches = batchEdges(edges, selection.largest);
    this.highlight(this.active ?? null);
    this.drawn = null;
    this.draw();
  }

  width() {
    return document.documentElement.dataset.print ? PAPER : this.root.clientWidth;
  }

  resize() {
    const width = this.width();
    if (!this.attention || width === 0) return;
    if (width !== this.layout.width) {
      this.layOut(width);
      this.highlight(this.active ?? null);
    }
    this.drawn = null;
    this.draw();
  }

  layOut(width) {
    const focused = this.rows.contains(document.activeElement) ? document.activeElement.dataset.token : null;
    this.drawn = null; // other rows
    clearTimeout(this.finishing);
    this.layout = layOut(this.attention, Math.max(width, 120));
    this.rows.style.font = tokenFont(this.layout.font);
    this.rows.style.height = `${this.layout.height}px`;
    this.elements = [];
    this.heated = [];
    this.rows.replaceChildren(...this.layout.rows.map((row) => this.row(row)));
    this.roving = clamp(this.active ?? 0, 0, this.elements.length - 1);
    if (this.elements.length) this.elements[this.roving].tabIndex = 0;
    if (focused !== null) this.elements[focused]?.focus({ preventScroll: true });
  }

  row(row) {
    const node = element("div", { className: "row" });
    node.style.height = `${row.bottom - row.top}px`;
    if (row.heading) node.append(element("p", { className: "part", textContent: row.part }));
    for (let token = row.first; token <= row.last; token += 1) node.append(this.token(token, row));
    return node;
  }

  token(token, row) {
    const text = this.attention.tokens[token];
    const node = element("span", {
      className: "token",
      role: "button",
      tabIndex: -1,
      dir: "auto",
      textContent: shorten(showInvisible(text), 60),
    });
    node.dataset.token = token;
    node.style.left = `${this.layout.left[token]}px`;
    node.style.top = `${row.tokens - row.top}px`;
    node.style.width = `${this.layout.widths[token]}px`;
    node.style.height = node.style.lineHeight = `${this.layout.line}px`;
    const tag = this.attention.tags[token];
    if (tag) node.dataset.tag = tag;
    this.elements.push(node);
    return node;
  }

  key(event, token) {
    if (event.key === "Escape") return this.onSelect(null, "release");
    const row = this.layout.rowOf[token];
    const moveRows = (step) => {
      const next = clamp(row + step, 0, this.layout.rows.length - 1);
      return next === row ? token : nearestToken(this.layout, next, tokenCentre(this.layout, token));
    };
    const steps = {
      ArrowLeft: () => token + this.leftwards(token),
      ArrowRight: () => token - this.leftwards(token),
      ArrowUp: () => moveRows(-1),
      ArrowDown: () => moveRows(1),
      Home: () => 0,
      End: () => this.elements.length - 1,
      PageUp: () => moveRows(-10),
      PageDown: () => moveRows(10),
    };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    event.preventDefault();
    return this.elements[clamp(steps[event.key](), 0, this.elements.length - 1)].focus();
  }

  /** Where the token at the left is: 1 after this one, -1 before it. */
  leftwards(token) {
    const { first, last } = this.layout.rows[this.layout.rowOf[token]];
    return this.layout.left[last] < this.layout.left[first] ? 1 : -1;
  }

  /** Highlight the incoming edges of one token, or none. */
  highlight(token) {
    for (const node of this.heated) {
      node.classList.remove("active", "source");
      node.style.removeProperty("--heat");
      delete node.dataset.weight;
    }
    this.heated = [];
    this.active = token;
    this.root.classList.toggle("lit", token !== null);
    this.focusBatches = [];
    if (token !== null) {
      const incoming = this.selection.incoming(token);
      this.focusBatches = batchEdges(
        incoming.filter(({ weight }) => weight >= this.threshold).map((edge) => ({ ...edge, target: token })),
        this.selection.largest,
      );
      this.heat(token, incoming);
      this.moveTabStop(token);
    }
    this.drawFocus();
  }

  heat(token, incoming) {
    const most = incoming[0]?.weight || 1;
    const strong = incoming.filter(({ weight }) => weight >= LEAST_HEAT * most);
    for (const { source, weight, relation } of strong.slice(0, MOST_HEATED).reverse()) {
      const node = this.elements[source];
      node.classList.add("source");
      node.style.setProperty("--heat", `${Math.round(4 + 56 * Math.sqrt(weight / most))}%`);
      node.style.setProperty("--relation", relationVariable(relation));
      node.dataset.weight = shortDecimals(weight);
      this.heated.push(node);
    }
    this.elements[token].classList.add("active");
    this.heated.push(this.elements[token]);
  }

  moveTabStop(token) {
    this.elements[this.roving].tabIndex = -1;
    this.elements[token].tabIndex = 0;
    this.roving = token;
  }

  /** Scroll to the active token if it is outside the window. */
  reveal() {
    if (this.root.hidden || this.active == null) return;
    const box = this.elements[this.active].getBoundingClientRect();
    if (box.top < 0 || box.bottom > innerHeight) this.elements[this.active].scrollIntoView({ block: "center" });
  }

  /** The rows in the window, with a margin, so that most scrolling needs no drawing. */
  visibleRows(margin) {
    const top = this.rows.getBoundingClientRect().top;
    const rows = this.layout.rows;
    const first = rows.findIndex((row) => row.bottom + top >= -margin);
    const after = rows.findIndex((row) => row.top + top > innerHeight + margin);
    return first < 0 ? null : { first, last: after < 0 ? rows.length - 1 : Math.max(first, after - 1) };
  }

  draw() {
    if (!this.attention || this.root.hidden || document.documentElement.dataset.print) return;
    const visible = this.visibleRows(50);
    if (!visible || (this.drawn && visible.first >= this.drawn.first && visible.last <= this.drawn.last)) return;
    this.drawn = this.visibleRows(MARGIN);
    this.paint(this.canvases.all, this.batches, this.drawn, { most: MOST_AT_ONCE });
    this.drawFocus(MOST_AT_ONCE);
    clearTimeout(this.finishing);
    if (this.count > MOST_AT_ONCE) this.finishing = setTimeout(() => this.finish(), 140);
  }

  finish() {
    if (!this.drawn) return;
    this.paint(this.canvases.all, this.batches, this.drawn, {});
    this.drawFocus();
  }

  drawFocus(most = MOST_DRAWN) {
    if (this.drawn) this.paint(this.canvases.focus, this.focusBatches, this.drawn, { strong: true, most });
  }

  /** Draw batches onto a canvas that covers some rows. */
  paint(canvas, batches, { first, last }, { strong = false, origin = 0, most = MOST_DRAWN }) {
    const [top, bottom] = [this.layout.rows[first].top, this.layout.rows[last].bottom];
    const scale = Math.min(devicePixelRatio, 2);
    const visible = selectVisible(this.layout, batches, { first, last });
    const count = visible.reduce((total, { edges }) => total + edges.length, 0);
    canvas.hidden = count === 0;
    if (count === 0) return;
    canvas.style.width = `${this.layout.width}px`;
    canvas.style.height = `${bottom - top}px`;
    canvas.style.top = `${top - origin}px`;
    canvas.width = this.layout.width * scale;
    canvas.height = (bottom - top) * scale;
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, -top * scale);
    // dashes depend on the total count, so that arcs drawn later look the same
    const dashed = this.selection.groups.length > 1 && count <= MOST_DASHED;
    const faint = this.layout.rows.length > 8 ? 0.5 : 1;
    drawArcs(context, this.layout, strongest(visible, most), { colours: currentColours(), dashed, strong, faint });
  }

  /** For print, give each row its own canvas, so that pages can break between rows. */
  print() {
    this.layOut(PAPER);
    this.highlight(this.active ?? null);
    const batches = this.active === null ? this.batches : this.focusBatches;
    this.layout.rows.forEach((row, index) => {
      const canvas = element("canvas", { className: "printed" });
      canvas.setAttribute("aria-hidden", "true");
      this.rows.children[index].prepend(canvas);
      this.paint(canvas, batches, { first: index, last: index }, { strong: this.active !== null, origin: row.top });
    });
  }

  /** Restore the layout after printing. */
  restoreScreen() {
    this.layOut(this.width());
    this.highlight(this.active ?? null);
    this.drawn = null;
    this.draw();
  }
}
