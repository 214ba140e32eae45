// Attention as a picture with a cell for each edge: rows attend to columns. Where cells are smaller than pixels the
// strongest one of a pixel is shown.

/** The tokens along one side of the matrix: those of all parts with ends of edges. */
function axis(parts) {
  const tokens = parts.flatMap(([, { first, count }]) => Array.from({ length: count }, (_, position) => first + position));
  return { tokens, of: new Map(tokens.map((token, position) => [token, position])) };
}

/**
 * Draw the cells of a range of rows and columns as an image, with `dots` (at most one) for each cell.
 * `axes` has the tokens of rows and columns. Edges of weight zero are faintly visible.
 */
function rasterize(selection, axes, range, dots, colours) {
  const width = Math.max(1, Math.ceil((range.right - range.left) * dots));
  const height = Math.max(1, Math.ceil((range.bottom - range.top) * dots));
  const strength = new Float32Array(width * height).fill(-1);
  const groupOf = new Uint8Array(width * height);
  const columnOf = new Int32Array(axes.size).fill(-1);
  axes.columns.tokens.forEach((token, position) => (columnOf[token] = position));
  selection.groups.forEach(({ pointers, sources, weights }, group) => {
    for (let row = range.top; row < range.bottom; row += 1) {
      const target = axes.rows.tokens[row];
      const line = Math.floor((row - range.top) * dots) * width;
      for (let edge = pointers[target]; edge < pointers[target + 1]; edge += 1) {
        const column = columnOf[sources[edge]];
        if (column < range.left || column >= range.right) continue;
        const dot = line + Math.floor((column - range.left) * dots);
        if (weights[edge] > strength[dot]) {
          strength[dot] = weights[edge];
          groupOf[dot] = group;
        }
      }
    }
  });
  return colourImage(strength, groupOf, width, height, selection, colours);
}

function colourImage(strength, groupOf, width, height, selection, colours) {
  const image = new ImageData(width, height);
  const palette = selection.groups.map(({ relation }) => channels(colours.relation(relation)));
  for (let dot = 0; dot < strength.length; dot += 1) {
    if (strength[dot] < 0) continue;
    const [red, green, blue] = palette[groupOf[dot]];
    image.data[4 * dot] = red;
    image.data[4 * dot + 1] = green;
    image.data[4 * dot + 2] = blue;
    image.data[4 * dot + 3] = 18 + 237 * Math.sqrt(strength[dot] / (selection.largest || 1));
  }
  return image;
}

/** An image as a canvas, which can be drawn in any size. */
function asCanvas(image) {
  const canvas = element("canvas", { width: image.width, height: image.height });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Draw the whole matrix scaled to a canvas. */
function thumbnail(canvas, selection, axes, colours) {
  const size = Math.max(axes.rows.tokens.length, axes.columns.tokens.length, 1);
  const range = { top: 0, left: 0, bottom: axes.rows.tokens.length, right: axes.columns.tokens.length };
  const image = asCanvas(rasterize(selection, axes, range, Math.min(1, canvas.width / size), colours));
  const context = canvas.getContext("2d");
  const scale = canvas.width / Math.max(image.width, image.height);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  context.drawImage(image, 0, 0, image.width * scale, image.height * scale);
}

function axesOf(selection, attention) {
  return { rows: axis(selection.targets), columns: axis(selection.sources), size: attention.tokens.length };
}
