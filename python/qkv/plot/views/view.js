// What the scripts of all views share: `root` is the view's element, `data` what Python gave.
"use strict";
const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
const controls = root.querySelector(".controls"), note = root.querySelector(".note");
const still = root.querySelector(".still");
if (still) still.remove();  // it is what is shown without scripts
const drawing = root.querySelector("svg"), stage = root.querySelector(".stage");

function element(name, parent, properties) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  if (parent) parent.appendChild(made);
  return made;
}

function shape(name, parent, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
}

const counted = (name, n) => Array.from({ length: n }, (_, i) => name + i);

// Views that a page has put together show one layer and head.
const together = root.closest(".qkv-together");
function tellChosen(layer, head) {
  if (together) together.dispatchEvent(new CustomEvent("qkv-chosen", { detail: { root, layer, head } }));
}
function whenChosen(show) {
  const hear = ({ detail }) => { if (detail.root !== root) show(detail.layer, detail.head); };
  if (together) together.addEventListener("qkv-chosen", hear);
}
// The same for lists of layers and heads.
function shareChosen(layer, head, draw) {
  [layer, head].forEach((list) => list.addEventListener("change", () => tellChosen(+layer.value, +head.value)));
  whenChosen((a, b) => {
    layer.value = a;
    head.value = b;
    draw();
  });
}

// A list to choose from, left out where there is no choice.
function select(label, names, start, changed) {
  const list = element("select");
  names.forEach((name, i) => element("option", list, { textContent: name, value: i }));
  list.value = start;
  list.addEventListener("change", changed);
  if (names.length > 1) element("label", controls, { textContent: label + " " }).appendChild(list);
  return list;
}

const decoded = (text, Kind) => new Kind(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer);
// A token within other text, whose direction it leaves alone.
const isolated = (token) => "\u2068" + token + "\u2069";
const percent = (value) => (!Number.isFinite(value) ? String(value).replace("inity", "").replace("I", "i")
  : Math.abs(value) < 1e-3 && value !== 0 ? value.toExponential(1) : value.toFixed(4));
// The number of a code of packing.coded, whose three greatest are -inf, inf and NaN.
const numberOf = (code, steps, unit) => (code > steps ? [-Infinity, Infinity, NaN][code - steps - 1] : code * unit);
// What is shown of several numbers: NaN, then the one of greatest size; one that is excluded, -inf, last.
const loud = (x) => (x !== x ? Infinity : x === -Infinity ? -1 : Math.abs(x));

// Weights (layers, heads, Lq, Lk) of views.packed: all of them, or the largest of each row and pooled blocks.
function weightsOf(packed) {
  const [layers, heads, Lq, Lk] = packed.shape, k = packed.all ? Lk : packed.k;
  const Kind = packed.signed ? Int16Array : Uint16Array, steps = packed.signed ? 32764 : 65532;
  const unit = packed.scale / steps;
  const values = decoded(packed.all || packed.values, Kind);
  const places = packed.all ? null : decoded(packed.places, Uint16Array);
  const rests = packed.rests && decoded(packed.rests, Float32Array);
  const blocks = packed.blocks && decoded(packed.blocks, packed.signed ? Int8Array : Uint8Array);
  const [rows, columns] = packed.grid || [Lq, Lk];
  const start = (layer, head, q) => ((layer * heads + head) * Lq + q) * k;

  // Calls f(key, weight) for the exact weights of a row.
  function each(layer, head, q, f) {
    const from = start(layer, head, q);
    for (let i = 0; i < k; i++) f(places ? places[from + i] : i, numberOf(values[from + i], steps, unit));
  }
  function exact(layer, head, q, key) {
    let found = null;
    each(layer, head, q, (other, weight) => { if (other === key) found = weight; });
    return found;
  }
  // The largest of the weights in a block that are not exact.
  function pooled(layer, head, q, key) {
    const at = ((layer * heads + head) * rows + Math.floor(q * rows / Lq)) * columns + Math.floor(key * columns / Lk);
    const fine = packed.signed ? 124 : 252, share = numberOf(blocks[at], fine, 1 / fine);
    return !Number.isFinite(share) ? share : Math.sign(share) * share * share * packed.tops[layer * heads + head];
  }
  // Queries q0 to q1 and keys k0 to k1 of a head, at most `most` pixels on a side: [height, width, numbers].
  function picture(layer, head, most, [q0, q1, k0, k1] = [0, Lq, 0, Lk]) {
    const tall = q1 - q0, broad = k1 - k0;
    const height = Math.min(tall, most), width = Math.min(broad, most);
    const found = new Float32Array(height * width).fill(blocks ? 0 : -Infinity);
    for (let y = 0; blocks && y < height; y++) {
      const q = q0 + Math.floor((y + 0.5) * tall / height);
      for (let x = 0; x < width; x++) {
        found[y * width + x] = pooled(layer, head, q, k0 + Math.floor((x + 0.5) * broad / width));
      }
    }
    for (let q = q0; q < q1; q++) {
      const line = Math.floor((q - q0) * height / tall) * width;
      each(layer, head, q, (key, weight) => {
        if (key < k0 || key >= k1) return;
        const at = line + Math.floor((key - k0) * width / broad);
        if (loud(weight) > loud(found[at])) found[at] = weight;
      });
    }
    return [height, width, found];
  }
  const rest = (layer, head, q) => (rests ? rests[(layer * heads + head) * Lq + q] : 0);
  return { layers, heads, Lq, Lk, k, each, exact, pooled, picture, rest, isWhole: !places };
}

const color = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

// The name of the colour of a number, and how strong it is: as the square root of its share of `top`.
function shade(value, top) {
  if (!Number.isFinite(value)) return [value !== value ? "nan" : value > 0 ? "more" : "out", 1];
  return [value < 0 ? "less" : "more", Math.sqrt(Math.min(Math.abs(value) / (top || 1), 1))];
}
const colored = (value, top, most) => {
  const [name, strength] = shade(value, top);
  return `rgba(${color(name).split(" ").join(",")},${(most * strength).toFixed(3)})`;
};
// The largest size of finite numbers, or 1.
const topOf = (list) => list.reduce((top, x) => (Number.isFinite(x) ? Math.max(top, Math.abs(x)) : top), 0) || 1;

// Fills a canvas with numbers as colours.
function paint(canvas, height, width, numbers, top) {
  const image = new ImageData(width, height);
  const hues = {};
  for (const name of ["more", "less", "nan", "out"]) hues[name] = color(name).split(" ").map(Number);
  numbers.forEach((value, i) => {
    const [name, strength] = shade(value, top);
    image.data.set(hues[name], 4 * i);
    image.data[4 * i + 3] = 255 * strength;
  });
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// Moves with the arrow keys among elements, `down` and `across` steps at a time; the tabulator reaches one of them.
function walk(elements, down, across) {
  elements.forEach((one, i) => {
    one.tabIndex = i === 0 ? 0 : -1;
    one.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -across, ArrowRight: across, ArrowUp: -down, ArrowDown: down }[event.key];
      const next = step && elements[i + step];
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
    one.addEventListener("focus", () => elements.forEach((other) => { other.tabIndex = other === one ? 0 : -1; }));
  });
}

// Returns whether what is under the view is dark: the notebook's ground, or else what the reader prefers, if the page
// follows that.
function isDark() {
  const editor = /vscode-(light|dark|high-contrast-light|high-contrast)/.exec(document.body.className);
  if (editor) return !editor[1].endsWith("light");
  for (let at = root.parentElement; at; at = at.parentElement) {
    const [r, g, b, alpha = 1] = (getComputedStyle(at).backgroundColor.match(/[\d.]+/g) || []).map(Number);
    if (alpha > 0.5) return 0.3 * r + 0.6 * g + 0.1 * b < 128;
  }
  const follows = getComputedStyle(document.documentElement).colorScheme.includes("dark");
  return follows && matchMedia("(prefers-color-scheme: dark)").matches;
}

// Draws now, and again where the ground changes.
function follow(draw) {
  const look = (event) => {
    const changed = root.classList.contains("dark") !== isDark();
    root.classList.toggle("dark", isDark());
    if (changed || !event) draw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", look);
  root.addEventListener("pointerenter", look);
  addEventListener("load", look);  // sites choose their theme when they are loaded
  look();
}
