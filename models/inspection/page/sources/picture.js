// A picture of a view as a PNG or SVG file: what draws on a canvas draws a vector graphic as well.

const PICTURE_MARGIN = 16;
const HEADING = 44; // pixels for the heading and the legend
const NOTE = 18; // pixels for a note
const MOST_PIXELS = 16384; // along a side of a canvas
const NOT_IN_XML = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu; // tokens may have control characters
const SVG = "http://www.w3.org/2000/svg";

/** The methods of a canvas' context that our drawings use, which add elements to an SVG element. */
class SvgContext {
  constructor(width, height) {
    this.root = this.add("svg", { viewBox: `0 0 ${width} ${height}`, width, height }, null);
    this.parents = [this.root];
    this.beginPath();
    Object.assign(this, { dash: [], globalAlpha: 1, lineWidth: 1, fillStyle: "#000", strokeStyle: "#000" });
    Object.assign(this, { font: "", textAlign: "left", textBaseline: "alphabetic", clips: 0 });
  }

  add(name, { style = "", ...attributes }, parent = this.parents.at(-1)) {
    const node = document.createElementNS(SVG, name);
    if (style) node.style.cssText = style; // the page's policy forbids the attribute
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, typeof value === "number" ? Number(value.toFixed(2)) : value);
    parent?.append(node);
    return node;
  }

  save() {
    this.parents.push(this.parents.at(-1));
  }

  restore() {
    this.parents.pop();
  }

  /** Nest what follows, until `restore()`, in a group. */
  nest(attributes) {
    this.parents.push(this.add("g", attributes, this.parents.pop()));
  }

  translate(x, y) {
    this.nest({ transform: `translate(${x.toFixed(2)} ${y.toFixed(2)})` });
  }

  rotate(angle) {
    this.nest({ transform: `rotate(${((180 * angle) / Math.PI).toFixed(2)})` });
  }

  beginPath() {
    this.path = "";
  }

  draw(letter, numbers) {
    this.path += letter + numbers.map((number) => Number(number.toFixed(1))).join(" ");
  }

  moveTo(...point) {
    this.draw("M", point);
  }

  lineTo(...point) {
    this.draw("L", point);
  }

  bezierCurveTo(...points) {
    this.draw("C", points);
  }

  rect(x, y, width, height) {
    this.path += `M${x} ${y}h${width}v${height}h${-width}z`;
  }

  clip() {
    this.clips += 1;
    this.add("path", { d: this.path }, this.add("clipPath", { id: `clip-${this.clips}` }));
    this.nest({ "clip-path": `url(#clip-${this.clips})` });
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  line() {
    const dash = this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {};
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-linecap": "round", opacity: this.globalAlpha, ...dash };
  }

  stroke() {
    this.add("path", { d: this.path, ...this.line() });
  }

  strokeRect(x, y, width, height) {
    this.add("rect", { x, y, width, height, ...this.line() });
  }

  fillRect(x, y, width, height) {
    this.add("rect", { x, y, width, height, fill: this.fillStyle, opacity: this.globalAlpha });
  }

  measureText(text) {
    ruler.font = this.font;
    return ruler.measureText(text);
  }

  fillText(text, x, y, most = Infinity) {
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const shift = this.textBaseline === "middle" ? { dy: "0.35em" } : {};
    const fit = this.measureText(text).width > most ? { textLength: most, lengthAdjust: "spacingAndGlyphs" } : {};
    const style = `font: ${this.font}; white-space: pre`;
    this.add("text", { x, y, style, fill: this.fillStyle, "text-anchor": anchor, ...shift, ...fit }).textContent = text;
  }

  drawImage(canvas, x, y, width, height) {
    const style = "image-rendering: pixelated";
    this.add("image", { x, y, width, height, style, preserveAspectRatio: "none", href: canvas.toDataURL() });
  }
}

/** A picture with a heading and a legend of relations above it, and notes below it. */
function withHeading({ width, height, draw }, heading, relations, notes, colours) {
  const below = height + HEADING + 2 * PICTURE_MARGIN;
  const lines = notes.flatMap((note) => wrapText(note, LABEL_FONT, width));
  const total = below + NOTE * lines.length;
  const drawAll = (context) => {
    Object.assign(context, { fillStyle: colours.card, globalAlpha: 1 });
    context.fillRect(0, 0, width + 2 * PICTURE_MARGIN, total);
    context.save();
    context.translate(PICTURE_MARGIN, PICTURE_MARGIN);
    Object.assign(context, { font: LABEL_FONT, fillStyle: colours.ink, textAlign: "left", textBaseline: "middle" });
    context.fillText(heading, 0, 8, width);
    let x = 0;
    for (const relation of relations) {
      context.fillStyle = colours.relation(relation);
      context.fillRect(x, 24, 16, 4);
      context.fillText(relation, x + 21, 26);
      x += 40 + context.measureText(relation).width;
    }
    context.fillStyle = colours.ink;
    lines.forEach((line, number) => context.fillText(line, 0, below - PICTURE_MARGIN + NOTE * number, width));
    context.translate(0, HEADING);
    draw(context);
    context.restore();
  };
  return { width: width + 2 * PICTURE_MARGIN, height: total, draw: drawAll };
}

/** The lines of a text that fit into a width; a longer word is a line of its own. */
function wrapText(text, font, width) {
  ruler.font = font;
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && ruler.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

async function savePicture(picture, name) {
  const blob = name.endsWith(".svg") ? svgBlob(picture) : await pngBlob(picture);
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function svgBlob({ width, height, draw }) {
  const context = new SvgContext(width, height);
  draw(context);
  const text = new XMLSerializer().serializeToString(context.root).replace(NOT_IN_XML, "\ufffd");
  return new Blob([text], { type: "image/svg+xml" });
}

function pngBlob({ width, height, draw }) {
  const scale = Math.min(2, MOST_PIXELS / Math.max(width, height));
  const canvas = element("canvas", { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  draw(context);
  return new Promise((resolve) => canvas.toBlob(resolve));
}
