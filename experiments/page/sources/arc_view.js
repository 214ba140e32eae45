// The text with its arcs: tokens are elements that can be focused, arcs lie on canvases no larger than the window.

const MOST_ARCS = 8000; // in a text
const MOST_HEATED = 96; // tokens that a focused token lights up
const LEAST_HEAT = 0.02; // of the strongest source's weight
const MARGIN = 250; // pixels drawn above and below what is visible
const PAPER = 680; // pixels across a printed page

class ArcView {
  /** `chosen(token, how)` hears "hover", "focus" and "release". */
  constructor(root, chosen) {
    this.root = root;
    this.rows = root.querySelector(".rows");
    this.canvases = { all: root.querySelector(".arcs"), focus: root.querySelector(".focus") };
    this.chosen = chosen;
    this.heated = [];
    this.drawn = null;
    this.listen();
  }

  listen() {
    const tokenOf = (event) => {
      const found = event.target.closest(".token");
      return found ? Number(found.dataset.token) : null;
    };
    this.rows.addEventListener("pointerover", (event) => {
      if (event.pointerType !== "touch") this.chosen(tokenOf(event), "hover");
    });
    this.rows.addEventListener("pointerleave", () => this.chosen(null, "hover"));
    this.rows.addEventListener("focusin", (event) => this.chosen(tokenOf(event), "focus"));
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
    this.batches = inBatches(edges, selection.largest);
    this.light(this.active ?? null);
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
      this.light(this.active ?? null);
    }
    this.drawn = null;
    this.draw();
  }

  layOut(width) {
    const held = this.rows.contains(document.activeElement) ? document.activeElement.dataset.token : null;
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
    if (held !== null) this.elements[held]?.focus({ preventScroll: true });
  }

  row(row) {
    const made = element("div", { className: "row" });
    made.style.height = `${row.bottom - row.top}px`;
    if (row.heading) made.append(element("p", { className: "part", textContent: row.part }));
    for (let token = row.first; token <= row.last; token += 1) made.append(this.token(token, row));
    return made;
  }

  token(token, row) {
    const text = this.attention.tokens[token];
    const made = element("span", {
      className: "token",
      role: "button",
      tabIndex: -1,
      dir: "auto",
      textContent: shortened(visible(text), 60),
    });
    made.dataset.token = token;
    made.style.left = `${this.layout.left[token]}px`;
    made.style.top = `${row.tokens - row.top}px`;
    made.style.width = `${this.layout.widths[token]}px`;
    made.style.height = made.style.lineHeight = `${this.layout.line}px`;
    const tag = this.attention.tags[token];
    if (tag) made.dataset.tag = tag;
    this.elements.push(made);
    return made;
  }

  key(event, token) {
    if (event.key === "Escape") return this.chosen(null, "release");
    const row = this.layout.rowOf[token];
    const upright = (step) => {
      const next = clamp(row + step, 0, this.layout.rows.length - 1);
      return next === row ? token : nearest(this.layout, next, middle(this.layout, token));
    };
    const steps = {
      ArrowLeft: () => token - 1,
      ArrowRight: () => token + 1,
      ArrowUp: () => upright(-1),
      ArrowDown: () => upright(1),
      Home: () => 0,
      End: () => this.elements.length - 1,
      PageUp: () => upright(-10),
      PageDown: () => upright(10),
    };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    event.preventDefault();
    return this.elements[clamp(steps[event.key](), 0, this.elements.length - 1)].focus();
  }

  /** Show one token's incoming edges, or all edges. */
  light(token) {
    for (const old of this.heated) {
      old.classList.remove("active", "source");
      old.style.removeProperty("--heat");
      delete old.dataset.weight;
    }
    this.heated = [];
    this.active = token;
    this.root.classList.toggle("lit", token !== null);
    this.focusBatches = [];
    if (token !== null) {
      const incoming = this.selection.incoming(token);
      this.focusBatches = inBatches(
        incoming.filter(({ weight }) => weight >= this.threshold).map((edge) => ({ ...edge, target: token })),
        this.selection.largest,
      );
      this.heat(token, incoming);
      this.rove(token);
    }
    this.drawFocus();
  }

  heat(token, incoming) {
    const most = incoming[0]?.weight || 1;
    const strong = incoming.filter(({ weight }) => weight >= LEAST_HEAT * most);
    for (const { source, weight, relation } of strong.slice(0, MOST_HEATED).reverse()) {
      const made = this.elements[source];
      made.classList.add("source");
      made.style.setProperty("--heat", `${Math.round(4 + 56 * Math.sqrt(weight / most))}%`);
      made.style.setProperty("--relation", relationVariable(relation));
      made.dataset.weight = briefly(weight);
      this.heated.push(made);
    }
    this.elements[token].classList.add("active");
    this.heated.push(this.elements[token]);
  }

  rove(token) {
    this.elements[this.roving].tabIndex = -1;
    this.elements[token].tabIndex = 0;
    this.roving = token;
  }

  /** Scroll to the active token, if it is out of sight. */
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
    const seen = this.visibleRows(50);
    if (!seen || (this.drawn && seen.first >= this.drawn.first && seen.last <= this.drawn.last)) return;
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
    const seen = inSight(this.layout, batches, { first, last });
    const count = seen.reduce((total, { edges }) => total + edges.length, 0);
    canvas.hidden = count === 0;
    if (count === 0) return;
    canvas.style.width = `${this.layout.width}px`;
    canvas.style.height = `${bottom - top}px`;
    canvas.style.top = `${top - origin}px`;
    canvas.width = this.layout.width * scale;
    canvas.height = (bottom - top) * scale;
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, -top * scale);
    // some now and the others later look alike: what all of them are says whether lines are dashed
    const dashed = this.selection.groups.length > 1 && count <= MOST_DASHED;
    const faint = this.layout.rows.length > 8 ? 0.5 : 1;
    drawArcs(context, this.layout, strongest(seen, most), { colours: currentColours(), dashed, strong, faint });
  }

  /** On paper every row carries its own picture, so that pages may break between rows. */
  print() {
    this.layOut(PAPER);
    this.light(this.active ?? null);
    const batches = this.active === null ? this.batches : this.focusBatches;
    this.layout.rows.forEach((row, index) => {
      const canvas = element("canvas", { className: "printed" });
      canvas.setAttribute("aria-hidden", "true");
      this.rows.children[index].prepend(canvas);
      this.paint(canvas, batches, { first: index, last: index }, { strong: this.active !== null, origin: row.top });
    });
  }

  /** Back to the screen. */
  unprint() {
    this.layOut(this.width());
    this.light(this.active ?? null);
    this.drawn = null;
    this.draw();
  }
}
