const layers = data.layers.map((layer) => {
  const [Hq, Lq, D] = layer.shapes[0], [Hk, Lk] = layer.shapes[1];
  return {
    Lq, Lk, D, group: Hq / Hk, heads: Hq,
    weights: weightsOf(layer.weights), scores: layer.scores && weightsOf(layer.scores),
    queries: decoded(layer.queries, Int16Array), keys: decoded(layer.keys, Int16Array),
    units: layer.scales.map((scale) => scale / 32764),
  };
});
const layer = select("layer", data.layers.map((each) => each.name), 0, draw);
const head = select("head", counted("", layers[0].heads), data.head, draw);
const query = select("query", data.queries.map((token, i) => `${i} ${token}`), data.query, draw);
const table = element("table", element("div", stage, { className: "wide" }));
const titles = element("tr", element("thead", table));
["key", "", "features", "× query", "q · k", "score", "weight"].forEach((name, i) => {
  if (i !== 1) element("th", titles, { textContent: name, scope: "col" });
});
const first = element("tr", table.tHead);
const named = element("th", first), strip = element("canvas", element("td", first));
[0, 1, 2, 3].forEach(() => element("td", first));
const body = element("tbody", table), rows = data.keys.map((token) => {
  const row = element("tr", body, { tabIndex: -1 });
  element("th", row, { textContent: token, scope: "row" });
  const canvases = [0, 1].map(() => element("canvas", element("td", row)));
  return { row, canvases, cells: [0, 1, 2].map(() => element("td", row, { className: "number" })) };
});

const vector = (from, unit, head, place, L, D) =>
  Array.from(from.subarray((head * L + place) * D, (head * L + place + 1) * D), (value) => numberOf(value, 32764, unit));

const told = (x) => (Number.isFinite(x) ? x.toFixed(3) : percent(x));

function draw() {
  const at = layers[+layer.value], { Lq, Lk, D } = at, h = Math.min(+head.value, at.heads - 1), q = +query.value;
  const asked = vector(at.queries, at.units[0], h, q, Lq, D);
  const keys = rows.map((_, k) => vector(at.keys, at.units[1], Math.floor(h / at.group), k, Lk, D));
  const products = keys.map((key) => key.map((value, d) => value * asked[d]));
  const tops = [topOf(asked), topOf(keys.flat()), topOf(products.flat())];
  named.textContent = "query: " + data.queries[q];
  paint(strip, 1, D, asked, tops[0]);
  strip.onpointermove = (event) => tellFeature(event, strip, "query", asked);
  rows.forEach(({ canvases, cells }, k) => {
    [keys[k], products[k]].forEach((list, i) => {
      paint(canvases[i], 1, D, list, tops[i + 1]);
      const canvas = canvases[i];
      canvas.onpointermove = (event) => tellFeature(event, canvas, data.keys[k], products[k], keys[k], asked);
    });
    const score = at.scores && at.scores.exact(0, h, q, k), weight = at.weights.exact(0, h, q, k);
    cells[0].textContent = told(products[k].reduce((sum, x) => sum + x, 0));
    cells[1].textContent = score === null || score === undefined ? "" : told(score);
    cells[2].textContent = weight === null ? "≤ " + percent(at.weights.pooled(0, h, q, k)) : percent(weight);
  });
}

function tellFeature(event, canvas, name, list, key, asked) {
  const box = canvas.getBoundingClientRect();
  const d = Math.max(0, Math.min(list.length - 1, Math.floor((event.clientX - box.left) * list.length / box.width)));
  note.textContent = `${isolated(name)}, feature ${d}: ` + (key
    ? `query ${asked[d].toFixed(3)} × key ${key[d].toFixed(3)} = ${list[d].toFixed(3)}` : list[d].toFixed(3));
}

walk(rows.map(({ row }) => row), 1, 0);
rows.forEach(({ row }, k) => row.addEventListener("focus", () => {
  const at = layers[+layer.value], h = Math.min(+head.value, at.heads - 1);
  const asked = vector(at.queries, at.units[0], h, +query.value, at.Lq, at.D);
  const key = vector(at.keys, at.units[1], Math.floor(h / at.group), k, at.Lk, at.D);
  const best = key.map((value, d) => [value * asked[d], d]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
  const told = best.slice(0, 4).map(([x, d]) => `feature ${d} ${x.toFixed(3)}`);
  note.textContent = `${isolated(data.keys[k])}: ${told.join("   ")}`;
}));
follow(draw);
