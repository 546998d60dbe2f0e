const SMALL = 64, MOST = 1024, LABELLED = 96;  // pixels of a head at a glance, of one enlarged; labels up to here
const tables = data.tables.map((table) => ({ name: table.name, weights: weightsOf(table.weights), top: table.top }));
const shown = select("show", tables.map((table) => table.name), 0, draw);
const { layers, heads, Lq, Lk } = tables[0].weights;
const whole = [0, Lq, 0, Lk];  // queries from, to, keys from, to
let chosen = [data.layer, data.head], cell = null, frame = null, box = whole, drag = null;
[["zoom in", 0.5], ["zoom out", 2]].forEach(([name, factor]) => {
  const button = element("button", controls, { type: "button", textContent: name });
  button.addEventListener("click", () => zoom(factor));
});

const grid = element("div", stage, { className: "grid" });
const largest = Math.max(20, Math.min(64, 360 / Math.max(layers, heads)));  // pixels, so that both fit a screen
grid.style.gridTemplateColumns = `auto repeat(${heads}, minmax(14px, ${largest}px))`;
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
    const choose = () => { chooseHead(layer, head); tellChosen(layer, head); };
    button.addEventListener("click", choose);
    button.addEventListener("focus", choose);
    glances.push(button);
  }
}
walk(glances, heads, 1);
function chooseHead(layer, head) {
  chosen = [layer, head];
  cell = null;
  enlarge();
}
whenChosen(chooseHead);
const large = element("canvas", stage, { className: "large", tabIndex: 0 });
large.setAttribute("role", "img");

function draw() {
  const { weights, top } = tables[+shown.value];
  glances.forEach((button, i) => {
    paint(button.firstChild, ...weights.picture(Math.floor(i / heads), i % heads, SMALL), top);
  });
  enlarge();
}

// The chosen rectangle of the chosen head with its tokens; labels that are too long are written narrower.
function enlarge() {
  const { weights, top } = tables[+shown.value], picture = element("canvas"), scale = devicePixelRatio || 1;
  glances.forEach((button, i) => {
    button.setAttribute("aria-pressed", i === chosen[0] * heads + chosen[1]);
  });
  paint(picture, ...weights.picture(...chosen, MOST, box), top);
  const [q0, q1, k0, k1] = box, rows = q1 - q0, columns = k1 - k0;
  const width = Math.min(stage.clientWidth || 560, 720), context = large.getContext("2d");
  context.font = "12px system-ui, sans-serif";
  const seen = (tokens, from, to) => (tokens && to - from <= LABELLED ? tokens.slice(from, to) : []);
  const queries = seen(data.queries, q0, q1), keys = seen(data.keys, k0, k1);
  const room = (tokens) => tokens.reduce((most, token) => Math.max(most, 8 + context.measureText(token).width), 4);
  const left = Math.min(room(queries), 0.35 * width), up = Math.min(room(keys), 0.35 * width) + 2;
  const inner = width - left - 6, size = Math.min(inner / columns, Math.max(inner / rows, 3), 28);
  const high = Math.max(size * rows, Math.min(120, inner)), wide = Math.min(size * columns, inner);
  frame = { left, up, wide, high, rows, columns };
  large.width = width * scale;
  large.height = (up + high + 6) * scale;
  large.style.width = width + "px";
  context.scale(scale, scale);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, left, up, wide, high);
  context.strokeStyle = color("edge");
  context.strokeRect(left - 0.5, up - 0.5, wide + 1, high + 1);
  context.fillStyle = color("ink");
  context.font = `${Math.max(7, Math.min(12, 0.9 * high / rows, 0.9 * wide / columns))}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  queries.forEach((token, q) => context.fillText(token, left - 5, up + (q + 0.5) * high / rows, left - 6));
  context.textAlign = "left";
  keys.forEach((token, k) => {
    context.save();
    context.translate(left + (k + 0.5) * wide / columns, up - 5);
    context.rotate(-Math.PI / 2);
    context.fillText(token, 0, 0, up - 6);
    context.restore();
  });
  context.strokeStyle = color("chosen");
  const across = wide / columns, down = high / rows;
  [drag && between(...drag), cell && between(cell, cell)].filter(Boolean).forEach(([a, b, c, d]) => {
    context.strokeRect(left + (c - k0) * across, up + (a - q0) * down, (d - c) * across, (b - a) * down);
  });
  tell();
}

// The tokens that a row or a column shows: one, or the many of a pixel.
function named(tokens, [from, to], n, i) {
  if (to - from === n) return tokens ? isolated(tokens[i]) : from + i;
  const [first, last] = [i, i + 1].map((at) => from + Math.floor(at * (to - from) / n));
  return `${first} to ${last - 1}`;
}

function tell() {
  const [layer, head] = chosen;
  const told = [`layer ${layer}, head ${data.heads[head]}`];
  if (cell) {
    const [q, k] = cell;
    told.push(`${named(data.queries, data.rows, Lq, q)} → ${named(data.keys, data.columns, Lk, k)}`);
    tables.forEach(({ name, weights }) => {
      const weight = weights.exact(layer, head, q, k);
      const value = weight !== null ? percent(weight)
        : "at most " + percent(weights.pooled(layer, head, q, k)) + " (pooled)";
      told.push(tables.length > 1 ? `${name} ${value}` : value);
    });
  }
  if (box !== whole) {
    const ends = (i, [from, to], n) =>
      box.slice(i, i + 2).map((place) => from + Math.floor(place * (to - from) / n)).join(", ");
    told.push(`rows=(${ends(0, data.rows, Lq)}), columns=(${ends(2, data.columns, Lk)})`);
  }
  note.textContent = told.join("   ");
  large.setAttribute("aria-label", note.textContent);
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
// The rectangle of two cells: queries from, to, keys from, to.
const between = (a, b) => [0, 1].flatMap((i) => [Math.min(a[i], b[i]), Math.max(a[i], b[i]) + 1]);

// Shows a part that is `factor` times as long and wide, around the cell or the middle.
function zoom(factor) {
  const [q0, q1, k0, k1] = box;
  const span = (from, to, n, at) => {
    const length = clamp(Math.round((to - from) * factor), Math.min(n, 4), n);
    const start = clamp(Math.round(at - length / 2), 0, n - length);
    return [start, start + length];
  };
  const middle = cell || [(q0 + q1) / 2, (k0 + k1) / 2];
  box = [...span(q0, q1, Lq, middle[0]), ...span(k0, k1, Lk, middle[1])];
  if (box.every((place, i) => place === whole[i])) box = whole;
  enlarge();
}

function cellAt(event) {
  const bounds = large.getBoundingClientRect(), { left, up, wide, high, rows, columns } = frame;
  const q = Math.floor((event.clientY - bounds.top - up) * rows / high) + box[0];
  const k = Math.floor((event.clientX - bounds.left - left) * columns / wide) + box[2];
  return q >= box[0] && q < box[1] && k >= box[2] && k < box[3] ? [q, k] : null;
}

large.addEventListener("pointerdown", (event) => {
  const at = event.pointerType === "mouse" && cellAt(event);
  drag = at ? [at, at] : null;
});
large.addEventListener("pointermove", (event) => {
  cell = cellAt(event);
  if (drag && cell) drag[1] = cell;
  if (drag) enlarge(); else tell();
});
large.addEventListener("pointerup", () => {
  const next = drag && between(...drag);
  if (next && next[1] - next[0] > 1 && next[3] - next[2] > 1) box = next;
  drag = null;
  enlarge();
});
large.addEventListener("dblclick", () => { box = whole; enlarge(); });
large.addEventListener("keydown", (event) => {
  if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 0.5 : 2);
  if (event.key === "Escape") { box = whole; enlarge(); }
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step) return;
  event.preventDefault();
  const [q, k] = cell || [box[0], box[2]];
  cell = [clamp(q + step[0], box[0], box[1] - 1), clamp(k + step[1], box[2], box[3] - 1)];
  enlarge();
});
addEventListener("resize", () => { if (root.isConnected) enlarge(); });
follow(draw);
