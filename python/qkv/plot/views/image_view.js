const weights = weightsOf(data.weights), [rows, columns] = data.patches, special = data.special.length;
const named = data.words || data.special;  // queries that are no patches
const layer = select("layer", counted("", weights.layers), data.layer, draw);
const head = select("head", data.heads, data.head, draw);
shareChosen(layer, head, draw);
const [height, width] = data.size, photo = element("canvas", null, { width, height });
const canvas = element("canvas", stage, { className: "large", tabIndex: 0, width, height });
canvas.setAttribute("role", "img");
canvas.style.width = Math.max(width, 360) + "px";
let query = data.query;

const pixels = new ImageData(width, height), colors = decoded(data.image, Uint8Array);
for (let i = 0; i < width * height; i++) {
  pixels.data.set(colors.subarray(3 * i, 3 * i + 3), 4 * i);
  pixels.data[4 * i + 3] = 255;
}
photo.getContext("2d").putImageData(pixels, 0, 0);
named.forEach((name, i) => {
  const button = element("button", controls, { type: "button", textContent: name });
  button.addEventListener("click", () => { query = i; draw(); });
});

// The grey photograph, and the colour of each patch on it, as strong as its weight.
function draw() {
  const context = canvas.getContext("2d"), wide = width / columns, high = height / rows, found = [];
  for (let k = special; k < weights.Lk; k++) {
    const weight = weights.exact(+layer.value, +head.value, query, k);
    found.push(weight === null ? weights.pooled(+layer.value, +head.value, query, k) : weight);
  }
  const top = topOf(found);
  context.filter = "grayscale(0.8)";
  context.drawImage(photo, 0, 0);
  context.filter = "none";
  found.forEach((weight, i) => {
    const name = shade(weight, top)[0], hue = color(name === "more" ? "hot" : name).split(" ").join(",");
    context.fillStyle = `rgba(${hue},${(Number.isFinite(weight) ? 0.8 * Math.abs(weight) / top : 0.8).toFixed(3)})`;
    context.fillRect((i % columns) * wide, Math.floor(i / columns) * high, wide, high);
  });
  const place = data.words ? -1 : query - special;
  if (place >= 0) {
    context.strokeStyle = "#00b4ff";
    context.lineWidth = Math.max(2 * width / Math.max(width, 360), width / 200);  // two pixels of the screen
    context.strokeRect((place % columns) * wide, Math.floor(place / columns) * high, wide, high);
  }
  const best = found.map((weight, i) => [weight, i]).sort((a, b) => loud(b[0]) - loud(a[0])).slice(0, 3);
  const where = (i) => `(${Math.floor(i / columns)}, ${i % columns})`;
  note.textContent = `${place < 0 ? isolated(named[query]) : "patch " + where(place)}:   `
    + best.map(([weight, i]) => `${where(i)} ${percent(weight)}`).join("   ")
    + data.special.map((name, k) => `   ${name} ${percent(weights.exact(+layer.value, +head.value, query, k) || 0)}`).join("");
  canvas.setAttribute("aria-label", note.textContent);
}

function go(row, column) {
  if (data.words) return;
  const inside = (value, n) => Math.max(0, Math.min(n - 1, value));
  query = special + inside(row, rows) * columns + inside(column, columns);
  draw();
}
canvas.addEventListener("click", (event) => {
  const box = canvas.getBoundingClientRect();
  const row = Math.floor((event.clientY - box.top) * rows / box.height);
  go(row, Math.floor((event.clientX - box.left) * columns / box.width));
});
canvas.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step) return;
  event.preventDefault();
  const place = Math.max(query - special, 0);
  go(Math.floor(place / columns) + step[0], place % columns + step[1]);
});
follow(draw);
