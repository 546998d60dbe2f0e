const Kind = data.bytes === 2 ? Uint16Array : Uint8Array;
const tokensOf = (place) => [...root.querySelectorAll(`.text[data-side="${place}"] .token`)];
const sides = data.sides.map((side) => {
  const n = data.steps.length, perHead = n * side.first + side.grows * n * (n - 1) / 2;
  return { ...side, perHead, codes: decoded(side.weights, Kind), tokens: tokensOf(1 - side.grows) };
});
const written = tokensOf(0).slice(data.before), heads = data.heads.length - (data.heads.length > 1);
let pinned = data.token, seen = pinned;
const layer = select("layer", data.layers.map(String), data.layer, draw);
const head = select("head", data.heads, data.head, draw);
shareChosen(layer, head, draw);
const beside = root.querySelector(".beside");
root.querySelector(".texts").appendChild(note);

// The weights of a step over the tokens of a side that it read.
function row(side, step, one) {
  const length = side.first + side.grows * step;
  const start = (+layer.value * heads + one) * side.perHead + step * side.first + side.grows * step * (step - 1) / 2;
  return Array.from(side.codes.subarray(start, start + length), (code) => code / data.codes);
}
function weightsAt(side, step) {
  if (+head.value < heads) return row(side, step, +head.value);
  const all = counted("", heads).map((one) => row(side, step, +one));
  return all[0].map((_, key) => all.reduce((sum, weights) => sum + weights[key], 0) / heads);
}

const cell = (line, text, className) => element("td", line, { textContent: text, className });
// A table of a layer, if there is one, tokens and probabilities; rows are [layer, word, [p, ...], whether it is marked].
function table(caption, columns, rows) {
  const made = element("table", beside);
  element("caption", made, { textContent: caption });
  const top = element("tr", element("thead", made));
  columns.forEach((name, i) => element("th", top, { textContent: name, scope: "col",
    className: i >= columns.length - 1 - rows[0][2].length ? "digits" : "" }));
  const body = element("tbody", made);
  rows.forEach(([at, word, ps, isMarked]) => {
    const line = element("tr", body, { className: isMarked ? "chosen" : "" });
    if (at !== null) cell(line, at, "digits");
    element("span", cell(line, "", "word"), { textContent: word });
    ps.forEach((p) => cell(line, percent(p), "digits"));
    element("i", cell(line, "", "share")).style.width = `${100 * ps[ps.length - 1]}%`;
  });
}

function draw() {
  const lines = sides.map((side) => {
    const weights = weightsAt(side, seen), top = topOf(weights);
    side.tokens.forEach((span, i) => {
      span.style.backgroundColor = i < weights.length ? colored(weights[i], top, 0.75) : "";
      span.title = i < weights.length ? percent(weights[i]) : "";
    });
    const found = weights.map((weight, i) => [weight, side.tokens[i].textContent]).sort((a, b) => b[0] - a[0]);
    const where = sides.length > 1 ? (side.grows ? "written: " : "source: ") : "";
    return where + found.slice(0, 5).map(([weight, token]) => `${isolated(token)} ${percent(weight)}`).join("   ");
  });
  written.forEach((span, i) => {
    span.classList.toggle("chosen", i === seen);
    span.setAttribute("aria-pressed", i === pinned);
  });
  const joined = lines.length > 1 ? "\n" : "   ";
  note.textContent = [`${isolated(written[seen].textContent)} looked at:`, ...lines.reverse()].join(joined);
  const [chosen, ...candidates] = data.steps[seen];
  if (!candidates.some((one) => one[0] === chosen[0])) candidates.push(chosen);
  const names = data.sampled ? ["token", "model", "drawn from", ""] : ["token", "probability", ""];
  beside.replaceChildren();
  table("what could follow", names,
    candidates.map(([word, ...ps]) => [null, data.words[word], ps, word === chosen[0]]));
  if (data.lens.length) {
    table("what each layer would write", ["layer", "token", "probability", ""], data.lens.map((steps, i) =>
      [i, data.words[steps[seen][0]], [steps[seen][1]], i === data.layers[+layer.value]]));
  }
}

function show(step) { seen = step; draw(); }
written.forEach((span, i) => {
  const choose = () => { pinned = i; show(i); };
  span.setAttribute("role", "button");
  span.addEventListener("click", () => { span.focus(); choose(); });
  span.addEventListener("focus", choose);
  span.addEventListener("mouseenter", () => show(i));
});
root.querySelector(".texts").addEventListener("mouseleave", () => show(pinned));
walk(written, 1, 1);
follow(draw);
