// Every head of every layer as a small matrix; they are drawn while nothing else is to do.

const THUMBNAIL = 36;

class Overview {
  /** `chosen(layer, head)` hears which one was picked. */
  constructor(root, chosen) {
    this.grid = root.querySelector(".grid");
    this.chosen = chosen;
    this.buttons = [];
    this.turn = 0;
    this.grid.addEventListener("click", (event) => this.pick(event.target.closest("button")));
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
    this.grid.style.setProperty("--thumbnail", `${clamp(Math.floor(250 / most) - 5, 20, THUMBNAIL)}px`);
    this.buttons = [...this.grid.querySelectorAll("button")];
    this.redraw();
  }

  button(layer, head) {
    const relations = distinct(this.attention.chosen(layer, head, ALL).map((map) => map.relation));
    const name = `Layer ${layer}, head ${head}: ${relations.join(", ")}`;
    const made = element("button", { type: "button", tabIndex: -1, title: name, ariaLabel: name });
    Object.assign(made.dataset, { layer, head });
    made.style.setProperty("--relation", relationVariable(relations[0]));
    made.append(element("canvas", { width: 2 * THUMBNAIL, height: 2 * THUMBNAIL, ariaHidden: "true" }));
    return made;
  }

  mark(layer, head, relation) {
    for (const made of this.buttons) {
      const own = Number(made.dataset.layer) === layer && (head === ALL || Number(made.dataset.head) === head);
      const shown = own && this.attention.chosen(layer, Number(made.dataset.head), relation).length > 0;
      made.setAttribute("aria-pressed", String(shown));
      made.tabIndex = -1;
    }
    const first = this.buttons.find((made) => made.getAttribute("aria-pressed") === "true") ?? this.buttons[0];
    if (first) first.tabIndex = 0;
  }

  pick(made) {
    if (made) this.chosen(Number(made.dataset.layer), Number(made.dataset.head));
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
    const at = this.buttons.indexOf(event.target);
    if (!(event.key in steps) || at < 0) return;
    event.preventDefault();
    const next = this.buttons[clamp(at + steps[event.key], 0, this.buttons.length - 1)];
    next.focus();
    this.pick(next);
  }

  redraw() {
    this.turn += 1;
    this.later(this.turn, [...this.buttons]);
  }

  /** One picture at a time, and none of an older turn. */
  later(turn, waiting) {
    const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 30));
    const work = () => {
      const made = waiting.shift();
      if (!made || turn !== this.turn) return;
      const selection = this.attention.selection(this.attention.chosen(Number(made.dataset.layer), Number(made.dataset.head), ALL));
      thumbnail(made.firstChild, selection, axesOf(selection, this.attention), currentColours());
      this.later(turn, waiting);
    };
    idle(work, { timeout: 300 });
  }
}
