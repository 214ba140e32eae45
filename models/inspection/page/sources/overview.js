// Every head of every layer as a small matrix, drawn while the browser is idle.

const THUMBNAIL = 36;
const PICTURE_GAP = 4; // between two pictures, as in the style
const GRID_WIDTH = 300; // of a row, so that 16 heads fit beside their layer

class Overview {
  /** `onSelect(layer, head)` gets the selected head. */
  constructor(root, onSelect) {
    this.grid = root.querySelector(".grid");
    this.onSelect = onSelect;
    this.buttons = [];
    this.turn = 0;
    this.grid.addEventListener("click", (event) => this.select(event.target.closest("button")));
    this.grid.addEventListener("keydown", (event) => this.key(event));
  }

  show(attention) {
    this.attention = attention;
    const rows = attention.layers().map((layer) => {
      const row = element("div", { className: "layer", role: "group", ariaLabel: `Layer ${layer}` });
      row.append(element("span", { className: "name", textContent: layer }));
      row.append(...attention.heads(layer, ALL).map((head) => this.button(layer, head)));
      return row;
    });
    this.grid.replaceChildren(...rows);
    const most = Math.max(...rows.map((row) => row.children.length - 1));
    this.grid.style.setProperty("--thumbnail", `${clamp(Math.floor(GRID_WIDTH / most) - PICTURE_GAP, 14, THUMBNAIL)}px`);
    this.buttons = [...this.grid.querySelectorAll("button")];
    this.redraw();
  }

  button(layer, head) {
    const relations = unique(this.attention.selectMaps(layer, head, ALL).map((map) => map.relation));
    const name = `Layer ${layer}, head ${head}: ${relations.join(", ")}`;
    const node = element("button", { type: "button", tabIndex: -1, title: name, ariaLabel: name });
    Object.assign(node.dataset, { layer, head });
    node.style.setProperty("--relation", relationVariable(relations[0]));
    node.append(element("canvas", { width: 2 * THUMBNAIL, height: 2 * THUMBNAIL, ariaHidden: "true" }));
    return node;
  }

  mark(layer, head, relation) {
    for (const node of this.buttons) {
      const selected = Number(node.dataset.layer) === layer && (head === ALL || Number(node.dataset.head) === head);
      const shown = selected && this.attention.selectMaps(layer, Number(node.dataset.head), relation).length > 0;
      node.setAttribute("aria-pressed", String(shown));
      node.tabIndex = -1;
    }
    const first = this.buttons.find((node) => node.getAttribute("aria-pressed") === "true") ?? this.buttons[0];
    if (first) first.tabIndex = 0;
  }

  select(node) {
    if (node) this.onSelect(Number(node.dataset.layer), Number(node.dataset.head));
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
    const at = this.buttons.indexOf(event.target);
    if (!(event.key in steps) || at < 0) return;
    event.preventDefault();
    const next = this.buttons[clamp(at + steps[event.key], 0, this.buttons.length - 1)];
    next.focus();
    this.select(next);
  }

  redraw() {
    this.turn += 1;
    this.drawNext(this.turn, [...this.buttons]);
  }

  /** Draw one picture at a time; stop if a newer turn has begun. */
  drawNext(turn, waiting) {
    const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 30));
    const work = () => {
      const node = waiting.shift();
      if (!node || turn !== this.turn) return;
      const selection = this.attention.selection(this.attention.selectMaps(Number(node.dataset.layer), Number(node.dataset.head), ALL));
      thumbnail(node.firstChild, selection, axesOf(selection, this.attention), currentColours(this.grid));
      this.drawNext(turn, waiting);
    };
    idle(work, { timeout: 300 });
  }
}
