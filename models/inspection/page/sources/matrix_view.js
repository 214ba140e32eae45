// The matrix on the page: scrolling, zoom, and cells selected with the mouse or arrow keys.

const READABLE = 11; // pixels of a cell from which on tokens are shown
const LARGEST_CELL = 34;
const MOST_HEIGHT = 820;

class MatrixView {
  /**
   * `onSelect(target, source, place)` gets the cell under the mouse or keyboard cursor, or null, and
   * `onMark(source, target)` the edge of a cell that is clicked, or on which Enter is pressed.
   */
  constructor(root, onSelect, onMark) {
    this.root = root;
    this.scroller = root.querySelector(".scroller");
    this.sizer = root.querySelector(".sizer");
    this.canvas = root.querySelector("canvas");
    this.onSelect = onSelect;
    this.onMark = onMark;
    this.marks = [];
    this.cell = null;
    this.zoom = 0;
    this.listen();
  }

  listen() {
    this.scroller.addEventListener("pointermove", (event) => this.point(event));
    this.scroller.addEventListener("pointerleave", () => this.moveTo(null, null));
    this.scroller.addEventListener("click", () => this.markCell());
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.scroller.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()), { passive: true });
    new ResizeObserver(() => this.resize()).observe(this.root);
  }

  show(attention, selection, marks) {
    this.marks = marks;
    if (attention !== this.attention || selection !== this.selection) {
      this.attention = attention;
      this.selection = selection;
      this.axes = axesOf(selection, attention);
      this.picture = null;
      this.cell = null;
    }
    this.resize();
  }

  width() {
    return isPrinting(this.root) ? PAPER : this.root.clientWidth;
  }

  /** `zoom` from 0, the whole matrix, to 1, the largest cells. */
  setZoom(zoom) {
    this.zoom = zoom;
    this.picture = null;
    this.resize();
  }

  resize() {
    const width = this.width();
    if (!this.attention || this.root.hidden || width === 0) return;
    const [rows, columns] = [this.axes.rows.tokens.length, this.axes.columns.tokens.length];
    const fit = Math.min((width - this.margin(true)) / columns, (MOST_HEIGHT - this.margin(true)) / rows);
    const legible = fit >= READABLE;
    const smallest = legible ? Math.min(fit, LARGEST_CELL) : Math.min((width - 30) / columns, (MOST_HEIGHT - 30) / rows);
    this.size = smallest + (Math.max(LARGEST_CELL, smallest) - smallest) * this.zoom ** 2;
    this.label = this.margin(this.size >= READABLE);
    const height = Math.min(MOST_HEIGHT, this.label + rows * this.size);
    this.view = { width: Math.min(width, Math.ceil(this.label + columns * this.size)), height: Math.ceil(height) };
    this.scroller.style.width = `${this.view.width}px`;
    this.scroller.style.height = `${this.view.height}px`;
    this.sizer.style.width = `${this.label + columns * this.size}px`;
    this.sizer.style.height = `${this.label + rows * this.size}px`;
    this.picture = null;
    this.draw();
  }

  /** The width of tokens beside the cells. */
  margin(withNames) {
    if (!withNames) return 30;
    ruler.font = this.font(13);
    const tokens = [...this.axes.rows.tokens, ...this.axes.columns.tokens].slice(0, 400);
    const widest = tokens.reduce((most, token) => Math.max(most, ruler.measureText(this.name(token)).width), 0);
    return clamp(Math.ceil(widest) + 14, 40, 130);
  }

  font(size) {
    return `${size}px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif`;
  }

  name(token) {
    return shorten(showInvisible(this.attention.tokens[token]), 18);
  }

  point(event) {
    const box = this.scroller.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this.label + this.scroller.scrollLeft) / this.size);
    const row = Math.floor((event.clientY - box.top - this.label + this.scroller.scrollTop) / this.size);
    const inside = event.clientX - box.left >= this.label && event.clientY - box.top >= this.label;
    const within = row < this.axes.rows.tokens.length && column < this.axes.columns.tokens.length;
    this.moveTo(inside && within ? { row, column } : null, "pointer");
  }

  key(event) {
    if (event.key === "Escape") return this.moveTo(null, "keys");
    if (event.key === "Enter") return this.markCell();
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    event.preventDefault();
    const [down, right] = this.cell ? steps[event.key] : [0, 0];
    const { row, column } = this.cell ?? { row: 0, column: 0 };
    const cell = {
      row: clamp(row + down, 0, this.axes.rows.tokens.length - 1),
      column: clamp(column + right, 0, this.axes.columns.tokens.length - 1),
    };
    this.reveal(cell);
    return this.moveTo(cell, "keys");
  }

  reveal({ row, column }) {
    const scrollInto = (start, place, room) => clamp(start, (place + 1) * this.size - room, place * this.size);
    this.scroller.scrollTop = scrollInto(this.scroller.scrollTop, row, this.view.height - this.label);
    this.scroller.scrollLeft = scrollInto(this.scroller.scrollLeft, column, this.view.width - this.label);
  }

  markCell() {
    if (this.cell) this.onMark(this.axes.columns.tokens[this.cell.column], this.axes.rows.tokens[this.cell.row]);
  }

  /** Show which edges are marked: a list of [source, target]. */
  mark(marks) {
    this.marks = marks;
    this.draw();
  }

  moveTo(cell, how) {
    if (cell?.row === this.cell?.row && cell?.column === this.cell?.column) return;
    this.cell = cell;
    this.draw();
    if (cell === null) this.onSelect(null, null, null, how);
    else this.onSelect(this.axes.rows.tokens[cell.row], this.axes.columns.tokens[cell.column], this.locateCell(cell), how);
  }

  /** The position of a cell in the window. */
  locateCell({ row, column }) {
    const box = this.scroller.getBoundingClientRect();
    return {
      x: box.left + this.label + (column + 1) * this.size - this.scroller.scrollLeft,
      y: box.top + this.label + (row + 1) * this.size - this.scroller.scrollTop,
    };
  }

  /** The visible rows and columns. */
  range() {
    const [rows, columns] = [this.axes.rows.tokens.length, this.axes.columns.tokens.length];
    const { scrollTop, scrollLeft } = this.scroller;
    return {
      top: Math.min(rows, Math.floor(scrollTop / this.size)),
      left: Math.min(columns, Math.floor(scrollLeft / this.size)),
      bottom: Math.min(rows, Math.ceil((scrollTop + this.view.height - this.label) / this.size)),
      right: Math.min(columns, Math.ceil((scrollLeft + this.view.width - this.label) / this.size)),
    };
  }

  draw() {
    if (!this.attention || this.root.hidden || !this.view) return;
    const scale = Math.min(devicePixelRatio, 2);
    this.canvas.width = this.view.width * scale;
    this.canvas.height = this.view.height * scale;
    this.canvas.style.width = `${this.view.width}px`;
    this.canvas.style.height = `${this.view.height}px`;
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    this.drawOn(context, scale);
  }

  /** The cells in sight, to save. */
  toPicture() {
    return { ...this.view, draw: (context) => this.drawOn(context, 2) };
  }

  drawOn(context, scale) {
    const colours = currentColours(this.root);
    const range = this.range();
    this.drawCells(context, range, scale, colours);
    this.drawNames(context, range, colours);
    for (const [source, target] of this.marks) this.drawMark(context, source, target, colours);
    if (this.cell) this.drawCell(context, colours);
  }

  drawMark(context, source, target, colours) {
    const [row, column] = [this.axes.rows.of.get(target), this.axes.columns.of.get(source)];
    if (row === undefined || column === undefined) return;
    const x = this.label + column * this.size - this.scroller.scrollLeft;
    const y = this.label + row * this.size - this.scroller.scrollTop;
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    if (x >= this.label && y >= this.label) context.strokeRect(x, y, Math.max(this.size, 5), Math.max(this.size, 5));
    context.lineWidth = 1;
  }

  /** Draw the cells; reuse the picture while only the selected cell changes. */
  drawCells(context, range, scale, colours) {
    const key = JSON.stringify(range);
    if (this.picture?.key !== key) {
      const dots = Math.min(1, this.size * scale);
      this.picture = { key, dots, canvas: asCanvas(rasterize(this.selection, this.axes, range, dots, colours)) };
    }
    const { dots, canvas } = this.picture;
    context.save();
    context.beginPath();
    context.rect(this.label, this.label, this.view.width, this.view.height);
    context.clip();
    context.imageSmoothingEnabled = false;
    const x = this.label + range.left * this.size - this.scroller.scrollLeft;
    const y = this.label + range.top * this.size - this.scroller.scrollTop;
    context.drawImage(canvas, x, y, (canvas.width / dots) * this.size, (canvas.height / dots) * this.size);
    context.restore();
    context.strokeStyle = colours.line;
    context.strokeRect(this.label - 0.5, this.label - 0.5, this.view.width - this.label, this.view.height - this.label);
  }

  drawNames(context, range, colours) {
    context.font = this.font(Math.min(13, Math.max(10, this.size - 2)));
    context.textBaseline = "middle";
    const step = this.size >= READABLE ? 1 : niceStep(44 / this.size);
    for (let row = range.top; row < range.bottom; row += 1) {
      if (row % step) continue;
      const active = this.cell?.row === row;
      const y = this.label + (row + 0.5) * this.size - this.scroller.scrollTop;
      if (y < this.label) continue;
      this.write(context, this.axes.rows, row, step, active, colours, this.label - 6, y, 0);
    }
    for (let column = range.left; column < range.right; column += 1) {
      if (column % step) continue;
      const active = this.cell?.column === column;
      const x = this.label + (column + 0.5) * this.size - this.scroller.scrollLeft;
      if (x < this.label) continue;
      this.write(context, this.axes.columns, column, step, active, colours, x, this.label - 6, -Math.PI / 2);
    }
  }

  /** A token, or its position if cells are too small. */
  write(context, axis, place, step, active, colours, x, y, angle) {
    context.save();
    context.translate(x, y);
    context.rotate(angle);
    context.textAlign = angle ? "left" : "right";
    context.fillStyle = active ? colours.ink : colours.soft;
    const text = this.size >= READABLE ? this.name(axis.tokens[place]) : String(this.attention.position(axis.tokens[place]));
    context.fillText(text, 0, 0, this.label - 8);
    context.restore();
  }

  drawCell(context, colours) {
    const x = this.label + this.cell.column * this.size - this.scroller.scrollLeft;
    const y = this.label + this.cell.row * this.size - this.scroller.scrollTop;
    const size = Math.max(this.size, 5);
    context.strokeStyle = colours.ink;
    context.globalAlpha = 0.25;
    context.strokeRect(this.label, y, this.view.width, this.size);
    context.strokeRect(x, this.label, this.size, this.view.height);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(x, y, size, size);
    context.lineWidth = 1;
  }

  print() {
    this.zoomOnScreen = this.zoom;
    this.setZoom(0);
  }

  restoreScreen() {
    this.setZoom(this.zoomOnScreen);
  }
}

/** 1, 2, 5, 10, 20, … */
function niceStep(smallest) {
  const power = 10 ** Math.floor(Math.log10(smallest));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= smallest);
}
