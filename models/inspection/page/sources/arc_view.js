// The text with its arcs: tokens are focusable elements, arcs are drawn on canvases no larger than the window.

const MOST_ARCS = 8000; // in a text
const MOST_HEATED = 96; // highlighted sources of a focused token
const LEAST_HEAT = 0.02; // of the strongest source's weight
const MARGIN = 250; // pixels drawn above and below the window
const PAPER = 680; // pixels across a printed page

class ArcView {
  /**
   * `onSelect(token, how)` gets "hover", "focus" or "release", or several tokens and "group"; `signal` ends listening to
   * the window.
   */
  constructor(root, onSelect, signal) {
    this.root = root;
    this.rows = root.querySelector(".rows");
    this.canvases = { all: root.querySelector(".arcs"), focus: root.querySelector(".focus") };
    this.onSelect = onSelect;
    this.heated = [];
    this.marks = [];
    this.group = []; // several selected tokens
    this.anchor = null; // where they begin
    this.drawn = null;
    this.listen(signal);
  }

  listen(signal) {
    const tokenOf = (event) => {
      const node = event.target.closest(".token");
      return node ? Number(node.dataset.token) : null;
    };
    this.rows.addEventListener("pointerover", (event) => {
      const token = tokenOf(event);
      const dragged = event.buttons === 1 && token !== null && this.anchor !== null && token !== this.anchor;
      if (dragged) this.onSelect(between(this.anchor, token), "group");
      else if (event.pointerType !== "touch") this.onSelect(token, "hover");
    });
    this.rows.addEventListener("mousedown", (event) => {
      if (!event.shiftKey) this.anchor = tokenOf(event);
      else if (tokenOf(event) !== null) {
        event.preventDefault(); // neither focus nor a selection of text
        this.onSelect(between(this.anchor ?? this.active ?? tokenOf(event), tokenOf(event)), "group");
      }
    });
    this.rows.addEventListener("pointerleave", () => this.onSelect(null, "hover"));
    this.rows.addEventListener("focusin", (event) => this.onSelect(tokenOf(event), "focus"));
    this.rows.addEventListener("click", (event) => {
      if (!event.shiftKey && this.group.length === 0) this.elements[tokenOf(event)]?.focus({ preventScroll: true });
    });
    this.rows.addEventListener("keydown", (event) => this.key(event, tokenOf(event)));
    new ResizeObserver(() => this.resize()).observe(this.root);
    const redraw = () => requestAnimationFrame(() => this.draw());
    addEventListener("scroll", redraw, { passive: true, capture: true, signal }); // also of a notebook around this
    this.root.addEventListener("scroll", redraw, { passive: true }); // which the window does not get from a shadow tree
  }

  show(attention, selection, threshold, marks) {
    if (attention !== this.attention) {
      this.attention = attention;
      this.group = [];
      this.active = null; // a token of another text
      this.rows.replaceChildren(); // so that the new text does not get the focus
      this.layOut(this.width());
    }
    this.selection = selection;
    this.threshold = threshold;
    this.marks = marks;
    const { edges, count } = selection.strongest(threshold, MOST_ARCS);
    this.count = count;
    this.batches = batchEdges(edges, selection.largest);
    this.highlight(this.active ?? null);
    this.drawn = null;
    this.draw();
  }

  width() {
    return isPrinting(this.root) ? PAPER : this.root.clientWidth;
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
    const { activeElement } = this.root.getRootNode();
    const focused = this.rows.contains(activeElement) ? activeElement.dataset.token : null;
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
    if (event.shiftKey) {
      const end = this.group.length ? (this.group[0] === token ? this.group.at(-1) : this.group[0]) : token;
      const next = clamp(end + steps[event.key]() - token, 0, this.elements.length - 1);
      return this.onSelect(between(token, next), "group");
    }
    return this.elements[clamp(steps[event.key](), 0, this.elements.length - 1)].focus();
  }

  /** Where the token at the left is: 1 after this one, -1 before it. */
  leftwards(token) {
    const { first, last } = this.layout.rows[this.layout.rowOf[token]];
    return this.layout.left[last] < this.layout.left[first] ? 1 : -1;
  }

  /** Show which edges are marked: a list of [source, target]. */
  mark(marks) {
    this.marks = marks;
    this.highlight(this.active ?? null);
  }

  /** Highlight the incoming edges of one token, none or several, and the marked edges. */
  highlight(token, group = this.group) {
    for (const node of this.heated) {
      node.classList.remove("active", "source");
      node.style.removeProperty("--heat");
      delete node.dataset.weight;
    }
    this.heated = [];
    this.active = token;
    this.group = group;
    this.root.classList.toggle("lit", token !== null || group.length > 0);
    const edges = this.marks.flatMap(([source, target]) => this.selection.between(source, target));
    if (group.length) {
      edges.push(...group.flatMap((target) => this.selection.incoming(target)).filter((edge) => edge.weight >= this.threshold));
      this.heat(group, this.selection.into(group));
    } else if (token !== null) {
      const incoming = this.selection.incoming(token);
      const isMarked = (edge) => this.marks.some(([source, target]) => source === edge.source && target === token);
      edges.push(...incoming.filter((edge) => edge.weight >= this.threshold && !isMarked(edge)));
      this.heat([token], incoming);
      this.moveTabStop(token);
    }
    this.focusBatches = batchEdges(edges, this.selection.largest);
    this.drawFocus();
  }

  heat(targets, incoming) {
    const most = incoming[0]?.weight || 1;
    const strong = incoming.filter(({ weight }) => weight >= LEAST_HEAT * most);
    for (const { source, weight, relation } of strong.slice(0, MOST_HEATED).reverse()) {
      const node = this.elements[source];
      node.classList.add("source");
      node.style.setProperty("--heat", `${heatOf(weight, most)}%`);
      node.style.setProperty("--relation", relationVariable(relation));
      node.dataset.weight = shortDecimals(weight);
      this.heated.push(node);
    }
    for (const token of targets) {
      this.elements[token].classList.add("active");
      this.heated.push(this.elements[token]);
    }
  }

  moveTabStop(token) {
    this.elements[this.roving].tabIndex = -1;
    this.elements[token].tabIndex = 0;
    this.roving = token;
  }

  /** Scroll to the active token if it is out of sight; in a notebook only the text, not the notebook. */
  reveal() {
    if (this.root.hidden || this.active == null) return;
    const node = this.elements[this.active];
    const [box, sight] = [node.getBoundingClientRect(), this.sight()];
    if (box.top >= sight.top && box.bottom <= sight.bottom) return;
    if (hostOf(this.root) === document.documentElement) node.scrollIntoView({ block: "center" });
    else this.root.scrollTop += box.top - this.root.getBoundingClientRect().top - this.root.clientHeight / 2;
  }

  /** Top and bottom of what is in sight, in the window. */
  sight() {
    const { top, bottom } = this.root.getBoundingClientRect();
    return { top: Math.max(0, top), bottom: Math.min(innerHeight, bottom) };
  }

  /** The rows in sight, with a margin, so that most scrolling needs no drawing. */
  visibleRows(margin) {
    const top = this.rows.getBoundingClientRect().top;
    const rows = this.layout.rows;
    const sight = this.sight();
    const first = rows.findIndex((row) => row.bottom + top >= sight.top - margin);
    const after = rows.findIndex((row) => row.top + top > sight.bottom + margin);
    return first < 0 ? null : { first, last: after < 0 ? rows.length - 1 : Math.max(first, after - 1) };
  }

  draw() {
    if (!this.attention || this.root.hidden || isPrinting(this.root)) return;
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
    this.drawOn(context, strongest(visible, most), { dashed, strong, labelled: strong || count <= MOST_LABELLED });
  }

  /** Draw arcs, and their dependencies if `labelled`. */
  drawOn(context, batches, { dashed, strong, labelled }) {
    const colours = currentColours(this.root);
    const faint = this.layout.rows.length > 8 ? 0.5 : 1;
    drawArcs(context, this.layout, batches, { colours, dashed, strong, faint });
    const deprel = (...ends) => this.attention.deprel(...ends);
    if (labelled && this.attention.isParsed()) labelArcs(context, this.layout, batches, { colours, deprel });
  }

  /** The whole text and its arcs, to save: all of them, or of the active token and the marked edges. */
  toPicture() {
    const { width, height, rows, left, widths, line, rowOf, font } = this.layout;
    const targets = this.group.length ? this.group : [this.active].filter((token) => token !== null);
    const strong = targets.length > 0 || this.marks.length > 0;
    const batches = strong ? this.focusBatches : this.batches;
    const count = batches.reduce((total, { edges }) => total + edges.length, 0);
    const colours = currentColours(this.root);
    const incoming = targets.length ? this.selection.into(targets) : [];
    const heat = new Map(incoming.map(({ source, weight, relation }) => [source, { weight, relation }]).reverse());
    const draw = (context) => {
      const dashed = this.selection.groups.length > 1 && count <= MOST_DASHED;
      this.drawOn(context, batches, { dashed, strong, labelled: strong || count <= MOST_LABELLED });
      for (const row of rows.filter(({ heading }) => heading)) {
        Object.assign(context, { font: LABEL_FONT, fillStyle: colours.soft, textAlign: "left", textBaseline: "middle" });
        context.fillText(row.part, 0, row.top + row.heading / 2);
      }
      this.attention.tokens.forEach((text, token) => {
        const [x, y] = [left[token], rows[rowOf[token]].tokens];
        const source = heat.get(token);
        if (source) {
          context.globalAlpha = heatOf(source.weight, incoming[0].weight) / 100;
          context.fillStyle = colours.relation(source.relation);
          context.fillRect(x, y, widths[token], line);
          context.globalAlpha = 1;
        }
        Object.assign(context, { strokeStyle: colours.ink, lineWidth: 2 });
        if (targets.includes(token)) context.strokeRect(x, y, widths[token], line);
        Object.assign(context, { font: tokenFont(font), fillStyle: colours.ink, textAlign: "center", textBaseline: "middle" });
        context.fillText(shorten(showInvisible(text), 60), x + widths[token] / 2, y + line / 2, widths[token]);
        const below = source ? shortDecimals(source.weight) : this.attention.tags[token];
        if (!below) return;
        Object.assign(context, { font: LABEL_FONT, fillStyle: source ? colours.ink : colours.soft });
        context.fillText(below, x + widths[token] / 2, y + line + 9);
      });
    };
    return { width, height, draw };
  }

  /** For print, give each row its own canvas, so that pages can break between rows. */
  print() {
    this.layOut(PAPER);
    this.highlight(this.active ?? null);
    const strong = this.active !== null || this.group.length > 0;
    const batches = strong ? this.focusBatches : this.batches;
    this.layout.rows.forEach((row, index) => {
      const canvas = element("canvas", { className: "printed" });
      canvas.setAttribute("aria-hidden", "true");
      this.rows.children[index].prepend(canvas);
      this.paint(canvas, batches, { first: index, last: index }, { strong, origin: row.top });
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

/** The percentage of colour behind a source. */
function heatOf(weight, most) {
  return Math.round(4 + 56 * Math.sqrt(weight / (most || 1)));
}

/** The tokens from one to another, both included. */
function between(one, other) {
  const [first, last] = one < other ? [one, other] : [other, one];
  return Array.from({ length: last - first + 1 }, (_, place) => first + place);
}
