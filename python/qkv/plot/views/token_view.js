const weights = weightsOf(data.weights);
const layer = select("layer", counted("", weights.layers), data.layer, draw);
const head = select("head", data.heads, data.head, draw);
shareChosen(layer, head, draw);
const isRow = data.token === null;  // of a query that is no token here
const way = select("colour", isRow ? ["one row"] : ["what it attends to", "what attends to it"], 0, draw);
let chosen = data.token;

const tokens = data.tokens.map((token, i) => {
  const span = stage.children[i];
  span.setAttribute("role", "button");
  const choose = () => { if (!isRow) { chosen = i; draw(); } };
  span.addEventListener("click", () => { span.focus(); choose(); });
  span.addEventListener("focus", choose);
  span.addEventListener("mouseenter", () => { span.title = percent(weightOf(i)[0]); });
  return span;
});
walk(tokens, 1, 1);

// The weight between the chosen token and another: [weight, whether it is exact].
function weightOf(other) {
  const pair = isRow ? [0, other] : way.value === "0" ? [chosen, other] : [other, chosen];
  const weight = weights.exact(+layer.value, +head.value, ...pair);
  return weight === null ? [weights.pooled(+layer.value, +head.value, ...pair), false] : [weight, true];
}

function draw() {
  const found = tokens.map((_, i) => weightOf(i)), top = topOf(found.map(([weight]) => weight));
  tokens.forEach((span, i) => {
    span.style.backgroundColor = colored(found[i][0], top, 0.75);
    span.classList.toggle("chosen", i === chosen);
    span.setAttribute("aria-pressed", i === chosen);
  });
  const order = found.map(([weight, exact], i) => [weight, exact, data.tokens[i]]).filter((one) => one[1]);
  order.sort((a, b) => loud(b[0]) - loud(a[0]));
  note.textContent = (isRow ? "" : `${isolated(data.tokens[chosen])}:   `)
    + order.slice(0, 5).map(([w, , token]) => `${isolated(token)} ${percent(w)}`).join("   ");
}

follow(draw);
