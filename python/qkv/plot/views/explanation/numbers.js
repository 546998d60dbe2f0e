// The numbers that the steps show: all of them come from here, out of what Python stored of the recording.
const layers = data.layers.map((layer) => ({
  ...layer,
  weights: layer.weights.map(weightsOf),
  attentions: layer.attentions.map((about) => ({
    ...about, excluded: decoded(about.excluded, Uint8Array),
  })),
}));

// Rows (..., D), each in 16 bits of its greatest number.
function vectorsOf({ shape, scales, all }) {
  const whole = decoded(all, Int16Array), tops = decoded(scales, Float32Array), D = shape[shape.length - 1];
  const count = tops.length, L = shape[shape.length - 2];
  const row = (n) => Array.from(whole.subarray(n * D, (n + 1) * D), (code) => numberOf(code, 32764, tops[n] / 32764));
  // One row serves all tokens where there is one; heads share where there are fewer than of queries.
  const at = (token, head = 0, heads = 1) =>
    row(Math.floor(head * (count / L) / heads) * L + (L === 1 ? 0 : token));
  const joined = (token) => Array.from({ length: count / L }, (_, h) => row(h * L + (L === 1 ? 0 : token))).flat();
  return { at, joined };
}
const unpacked = new Map();
function arrayOf(layer, key) {
  const packed = layers[layer].arrays[key] || data.arrays[key];
  if (!unpacked.has(packed)) unpacked.set(packed, vectorsOf(packed));
  return unpacked.get(packed);
}
const isStored = (layer) => layers[layer].steps.length > 0;
const keysOf = (number) => data.keys[number];
const isPlain = (about) => about.kind === "dot" && !about.added && !about.softcap;  // a score is q · k times a number
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

function rowOf(table, head, token, Lk) {
  const found = new Array(Lk).fill(0);
  table.each(0, head, token, (key, value) => { found[key] = value; });
  return found;
}
// A row of an attention: weights, and of stored layers its scores and which keys are left out.
function weighed({ layer, head, token }, number) {
  const { weights, attentions } = layers[layer], Lk = keysOf(number).length, about = attentions[number];
  const row = { about, weights: rowOf(weights[number], head, token, Lk) };
  if (!about) return row;
  const excluded = keysOf(number).map((_, k) => {
    const bit = (head * data.tokens.length + token) * Lk + k;
    return ((about.excluded[bit >> 3] >> (bit & 7)) & 1) === 1;
  });
  const scores = about.scores ? arrayOf(layer, `scores${number}`).at(token, head, about.heads) : null;
  const masked = scores && scores.map((score, k) => (excluded[k] ? -Infinity : score));
  return { ...row, excluded, scores, masked };
}
// The same with what leads to the scores and what comes of the weights.
function attended(choice, number) {
  const { layer, head, token } = choice, row = weighed(choice, number), { about, weights } = row;
  if (!about) return row;
  const query = arrayOf(layer, `queries${number}`).at(token, head, about.heads);
  const keys = keysOf(number).map((_, k) => arrayOf(layer, `keys${number}`).at(k, head, about.heads));
  const values = keysOf(number).map((_, k) => arrayOf(layer, `values${number}`).at(k, head, about.heads));
  // Products of rounded numbers are less exact than what the scores say of them.
  const dots = about.kind !== "dot" ? null : isPlain(about) && row.scores
    ? row.scores.map((score) => score / about.scale) : keys.map((key) => dot(query, key));
  const most = Math.max(...weights) || 1;  // whose power is 1; powers of rounded scores would be less exact
  const powers = row.masked && about.normalizer === "softmax" ? weights.map((weight) => weight / most) : null;
  const result = arrayOf(layer, `heads${number}`).at(token, head, about.heads);
  return { ...row, query, keys, values, dots, powers, result };
}
const turn = (a, b) => (((Math.atan2(b[1], b[0]) - Math.atan2(a[1], a[0])) * 180 / Math.PI + 540) % 360) - 180;
// The pairs of features that turn: before, after, and by how many degrees.
function pairsOf({ layer, head, token }, step) {
  const about = layers[layer].attentions[step.attention], half = about.rotary / 2;
  const [before, after] = step.rows.map(([, key]) => arrayOf(layer, key).at(token, head, about.heads));
  return Array.from({ length: half }, (_, i) => {
    const [a, b] = [before, after].map((row) => [row[i], row[i + half]]);
    return { before: a, after: b, degrees: turn(a, b) };
  });
}
const candidatesOf = (token) => {
  const { labels, logits, probabilities } = data.candidates, row = labels.length === 1 ? 0 : token;
  return { labels: labels[row], logits: logits[row], probabilities: probabilities[row] };
};

// What a step shows: [name, numbers] each, of which the page draws every one.
function numbersOf(step, choice) {
  const { layer, head, token } = choice, number = step.attention;
  const stored = ([name, key]) => [name, arrayOf(layer, key).joined(token)];
  if (step.kind === "tokens") return data.ids ? [["id", data.ids]] : [];
  if (step.kind === "vectors") return step.rows.map(stored);
  if (step.kind === "layers") return [["length", layers.map((each) => each.lengths[token]).filter((x) => x !== undefined)]];
  if (step.kind === "logits" || step.kind === "probabilities") return [[step.kind, candidatesOf(token)[step.kind]]];
  if (step.kind === "rotary") {
    const pairs = pairsOf(choice, step);
    return [["before", pairs.flatMap((pair) => pair.before)], ["after", pairs.flatMap((pair) => pair.after)]];
  }
  const row = attended(choice, number);
  if (step.kind === "projections") {
    const own = keysOf(number).length === data.tokens.length ? token : 0;
    return [["q", row.query], ["k", row.keys[own]], ["v", row.values[own]]];
  }
  if (step.kind === "scores") return [["q · k", row.dots], ["score", row.scores]].filter(([, found]) => found);
  if (step.kind === "mask") return [["score", row.masked || row.excluded.map((out) => (out ? -Infinity : 0))]];
  if (step.kind === "softmax") return [["exp", row.powers], ["weight", row.weights]].filter(([, found]) => found);
  return [...row.values.map((value, k) => [`${k}`, value.map((x) => row.weights[k] * x)]), ["z", row.result]];
}
const stepsOf = (layer) => [...data.before, ...layers[layer].steps, ...data.after];
