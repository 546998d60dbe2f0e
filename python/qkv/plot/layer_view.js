const SMALL = 64, MOST = 1024, LABELLED = 96;  // pixels of a head at a glance, of one enlarged; labels up to here
const tables = data.tables.map((table) => ({ name: table.name, weights: weightsOf(table.weights), top: table.top }));
const shown = select("show", tables.map((table) => table.name), 0, draw);
const { layers, heads, Lq, Lk } = tables[0].weights;
let chosen = [data.layer, data.head], cell = null, frame = null;

const grid = element("div", stage, { className: "grid" });
grid.style.gridTemplateColumns = `auto repeat(${heads}, minmax(14px, 64px))`;
element("span", grid, {});
data.heads.forEach((name) => element("span", grid, { className: "name", textContent: name }));
const glances = [];
for (let layer = 0; layer < layers; layer++) {
  element("span", grid, { className: "name", textContent: layer });
  for (let head = 0; head < heads; head++) {
    const button = element("button", grid, { type: "button" });
    button.setAttribute("aria-label", `layer ${layer}, head ${data.heads[head]}`);
    button.title = `layer ${layer}, head ${data.heads[head]}`;
    element("canvas", button);
    const choose = () => { chosen = [layer, head]; cell = null; enlarge(); };
    button.addEventListener("click", choose);
    button.addEventListener("focus", choose);
    glances.push(button);
  }
}
walk(glances, heads, 1);
const large = element("canvas", stage, { className: "large", tabIndex: 0 });
large.setAttribute("role", "img");

function draw() {
  const { weights, top } = tables[+shown.value];
  glances.forEach((button, i) => {
    paint(button.firstChild, ...weights.picture(Math.floor(i / heads), i % heads, SMALL), top);
  });
  enlarge();
}

// The chosen head with its tokens; labels that are too long for their place are written narrower.
function enlarge() {
  const { weights, top } = tables[+shown.value], picture = element("canvas"), scale = devicePixelRatio || 1;
  glances.forEach((button, i) => {
    button.setAttribute("aria-pressed", i === chosen[0] * heads + chosen[1]);
  });
  paint(picture, ...weights.picture(...chosen, MOST), top);
  const width = Math.min(stage.clientWidth || 560, 720), context = large.getContext("2d");
  context.font = "12px system-ui, sans-serif";
  const room = (tokens) => (!tokens || tokens.length > LABELLED ? 4
    : Math.min(0.35 * width, 8 + Math.max(...tokens.map((token) => context.measureText(token).width))));
  const left = room(data.queries), up = room(data.keys) + 2;
  const inner = width - left - 6, size = Math.min(inner / Lk, Math.max(inner / Lq, 3), 28);
  const high = Math.max(size * Lq, Math.min(120, inner)), wide = Math.min(size * Lk, inner);
  frame = { left, up, wide, high };
  large.width = width * scale;
  large.height = (up + high + 6) * scale;
  large.style.width = width + "px";
  context.scale(scale, scale);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, left, up, wide, high);
  context.strokeStyle = color("edge");
  context.strokeRect(left - 0.5, up - 0.5, wide + 1, high + 1);
  context.fillStyle = color("ink");
  context.font = `${Math.max(7, Math.min(12, 0.9 * high / Lq, 0.9 * wide / Lk))}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  if (data.queries && Lq <= LABELLED) {
    context.textAlign = "right";
    data.queries.forEach((token, q) => context.fillText(token, left - 5, up + (q + 0.5) * high / Lq, left - 6));
  }
  if (data.keys && Lk <= LABELLED) {
    context.textAlign = "left";
    data.keys.forEach((token, k) => {
      context.save();
      context.translate(left + (k + 0.5) * wide / Lk, up - 5);
      context.rotate(-Math.PI / 2);
      context.fillText(token, 0, 0, up - 6);
      context.restore();
    });
  }
  if (cell) {
    context.strokeStyle = color("chosen");
    context.strokeRect(left + cell[1] * wide / Lk, up + cell[0] * high / Lq, wide / Lk, high / Lq);
  }
  tell();
}

function tell() {
  const [layer, head] = chosen;
  const told = [`layer ${layer}, head ${data.heads[head]}`];
  if (cell) {
    const [q, k] = cell;
    const named = (tokens, i) => (tokens ? isolated(tokens[i]) : i);
    told.push(`${named(data.queries, q)} → ${named(data.keys, k)}`);
    tables.forEach(({ name, weights }) => {
      const weight = weights.exact(layer, head, q, k);
      const value = weight !== null ? percent(weight) : "at most " + percent(weights.pooled(layer, head, q, k)) + " (pooled)";
      told.push(tables.length > 1 ? `${name} ${value}` : value);
    });
  }
  note.textContent = told.join("   ");
  large.setAttribute("aria-label", note.textContent);
}

large.addEventListener("pointermove", (event) => {
  const box = large.getBoundingClientRect();
  const q = Math.floor((event.clientY - box.top - frame.up) * Lq / frame.high);
  const k = Math.floor((event.clientX - box.left - frame.left) * Lk / frame.wide);
  cell = q >= 0 && q < Lq && k >= 0 && k < Lk ? [q, k] : null;
  tell();
});
large.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step) return;
  event.preventDefault();
  const [q, k] = cell || [0, 0];
  cell = [Math.max(0, Math.min(Lq - 1, q + step[0])), Math.max(0, Math.min(Lk - 1, k + step[1]))];
  enlarge();
});
addEventListener("resize", () => { if (root.isConnected) enlarge(); });
follow(draw);
