// The page: a section for each step, drawn again when another layer, head or token is chosen.
const COLUMNS = 128, DIALS = 64;  // numbers in a line of a picture; pairs that are drawn
const choice = { layer: data.layer, head: data.head, token: data.query };
if (root.parentElement === document.body) root.classList.add("alone");
stage.replaceChildren();
const lists = {
  layer: select("layer", layers.map((_, i) => String(i)), choice.layer, () => choose({ layer: +lists.layer.value })),
  head: select("head", headsOf(choice.layer), choice.head, () => choose({ head: +lists.head.value })),
  token: select("token", data.tokens.map((token, i) => `${i} ${token}`), choice.token, () => choose({ token: +lists.token.value })),
};
controls.appendChild(note);
const links = element("nav", controls, { ariaLabel: "steps" });
const sections = element("div", stage, { className: "walked" }), asking = element("section", stage, { className: "explained" });
let before = new Map();  // what each section showed

function headsOf(layer) {
  return counted("", layers[layer].weights[0].heads);
}

// Draws again; what was unfolded and where the keyboard was stay.
function choose(changes) {
  Object.assign(choice, changes);
  choice.head = Math.min(choice.head, headsOf(choice.layer).length - 1);
  for (const name in lists) lists[name].value = choice[name];
  const parts = (names) => [...stage.querySelectorAll(names)], focusable = "button, summary, canvas[tabindex]";
  const open = parts("details").map((part) => part.open), at = parts(focusable).indexOf(document.activeElement);
  draw();
  const now = parts("details");
  if (now.length === open.length) now.forEach((part, i) => { part.open = open[i]; });
  if (at >= 0 && parts(focusable)[at]) parts(focusable)[at].focus({ preventScroll: true });
}

const shortened = (text) => (text.length > 14 ? text.slice(0, 12) + "…" : text);
function pressed(parent, text, isChosen, label, act) {
  const button = element("button", parent, { type: "button", textContent: text, className: isChosen ? "token chosen" : "token" });
  button.setAttribute("aria-pressed", isChosen);
  if (label) button.setAttribute("aria-label", label);
  button.addEventListener("click", act);
  return button;
}

// A row of numbers as coloured cells; pointing or the arrow keys tell each of them.
function strip(parent, name, row, top) {
  const wide = Math.min(row.length, Math.ceil(row.length / Math.ceil(row.length / COLUMNS))), high = Math.ceil(row.length / wide);
  const line = element("div", parent, { className: "strip" });
  element("span", line, { className: "name", textContent: name });
  const canvas = element("canvas", line, { tabIndex: 0 }), told = element("span", line, { className: "reading" });
  paint(canvas, high, wide, [...row, ...new Array(high * wide - row.length).fill(0)], top || topOf(row));
  canvas.style.aspectRatio = `${wide} / ${high * (wide > 40 ? 1.6 : 1)}`;
  canvas.style.maxHeight = high === 1 ? "18px" : "90px";
  canvas.setAttribute("role", "img");
  const tell = (i) => {
    at = Math.max(0, Math.min(row.length - 1, i));
    told.textContent = `number ${at}: ${digits(row[at])}`;
    canvas.setAttribute("aria-label", `${name}, ${told.textContent}`);
  };
  let at = 0;
  told.textContent = row.slice(0, 3).map(digits).join("  ") + (row.length > 3 ? ` … ${row.length}` : "");
  canvas.setAttribute("aria-label", `${name}: ${many(row.length, "number")}, ${told.textContent}`);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    tell(Math.floor((event.clientY - box.top) * high / box.height) * wide + Math.floor((event.clientX - box.left) * wide / box.width));
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide }[event.key];
    if (!step) return;
    event.preventDefault();
    tell(at + step);
  });
}
const strips = (parent, rows, top) => rows.forEach(([name, row]) => strip(parent, name, row, top));

// A table of numbers by token: [title, numbers, how they are drawn] each; a row of -inf is struck out.
function table(parent, names, columns, excluded = [], first = "key") {
  const made = element("table", element("div", parent, { className: "wide rows" })), titles = element("tr", element("thead", made));
  [first, ...columns.map(([title]) => title)].forEach((title) => element("th", titles, { textContent: title, scope: "col" }));
  const body = element("tbody", made), tops = columns.map(([, row]) => topOf(row));
  names.forEach((name, k) => {
    const line = element("tr", body);
    line.classList.toggle("out", Boolean(excluded[k]));
    element("th", line, { textContent: name, scope: "row" });
    columns.forEach(([, row, isBar], i) => {
      const cell = element("td", line, { className: "number", textContent: digits(row[k]) });
      if (!isBar || !Number.isFinite(row[k])) return;
      const bar = element("i", cell, { className: row[k] < 0 ? "amount less" : "amount" });
      bar.style.width = `${100 * Math.abs(row[k]) / tops[i]}%`;
    });
  });
}

// What all tokens give all keys in this head, the chosen token's row marked; a click chooses a token.
function square(parent, rows, top, label) {
  const frame = element("div", parent, { className: "pairs" }), canvas = element("canvas", frame), mark = element("i", frame);
  paint(canvas, rows.length, rows[0].length, rows.flat(), top);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  frame.title = `${label}; a row is a token that looks, a column a token that is looked at`;
  frame.style.aspectRatio = `${rows[0].length} / ${rows.length}`;
  Object.assign(mark.style, { top: `${100 * choice.token / rows.length}%`, height: `${100 / rows.length}%` });
  frame.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    choose({ token: Math.min(rows.length - 1, Math.floor((event.clientY - box.top) * rows.length / box.height)) });
  });
}
const ofAll = (step, read) => data.tokens.map((_, token) => read(weighed({ ...choice, token }, step.attention)));

// Words in which _ and ^ lower and raise what follows.
function formula(parent, text) {
  const line = element("p", parent, { className: "written" });
  text.split(/([_^](?:\([^)]*\)|[\w]))/).forEach((part, i) => {
    if (i % 2) element(part[0] === "_" ? "sub" : "sup", line, { textContent: part.slice(1).replace(/^\((.*)\)$/, "$1") });
    else line.append(part);
  });
}

function allNumbers(parent, rows) {
  const more = element("details", parent), count = rows.reduce((sum, [, row]) => sum + row.length, 0);
  element("summary", more, { textContent: `all ${count} numbers` });
  more.addEventListener("toggle", () => {
    if (!more.open || more.children.length > 1) return;
    rows.forEach(([name, row]) => element("p", more, { className: "every", textContent: `${name}: ${row.map(digits).join("  ")}` }));
  });
}

const drawn = {
  tokens(parent) {
    const line = element("div", parent);
    walk(data.tokens.map((token, i) => pressed(line, token, i === choice.token,
      `token ${i}: ${token}${data.ids ? `, id ${data.ids[i]}` : ""}`, () => choose({ token: i }))), 0, 1);
    if (data.ids) element("p", parent, { className: "every", textContent: `ids: ${data.ids.join("  ")}` });
  },
  vectors(parent, step) {
    const rows = numbersOf(step, choice);
    strips(parent, rows);
    allNumbers(parent, rows);
  },
  projections(parent, step) {
    const row = attended(choice, step.attention), keys = keysOf(step.attention);
    strips(parent, [[`q of ${data.tokens[choice.token]}`, row.query]]);
    for (const [name, rows] of [["k", row.keys], ["v", row.values]]) {
      const more = element("details", parent, { open: keys.length <= 12 });
      element("summary", more, { textContent: `${name} of ${many(keys.length, "token")}` });
      strips(element("div", more, { className: "rows" }), rows.map((each, k) => [keys[k], each]), topOf(rows.flat()));
    }
    allNumbers(parent, [["q", row.query], ...row.keys.map((each, k) => [`k ${keys[k]}`, each]), ...row.values.map((each, k) => [`v ${keys[k]}`, each])]);
  },
  rotary(parent, step) {
    const line = element("div", parent, { className: "dials" }), pairs = pairsOf(choice, step);
    pairs.slice(0, DIALS).forEach(({ before: a, after: b, degrees }, i) => {
      const label = `pair ${i}: (${a.map(digits)}) turns by ${digits(degrees)}° to (${b.map(digits)})`;
      const dial = shape("svg", line, { viewBox: "-12 -12 24 24", width: 40, height: 40, role: "img", "aria-label": label });
      shape("title", dial, {}, label);
      shape("circle", dial, { r: 11 });
      const length = Math.hypot(...a) || 1;
      [["before", a], ["after", b]].forEach(([name, [x, y]]) =>
        shape("line", dial, { class: name, x1: 0, y1: 0, x2: 10 * x / length, y2: -10 * y / length }));
    });
    allNumbers(parent, numbersOf(step, choice));
  },
  scores(parent, step) {
    const row = attended(choice, step.attention);
    const columns = [["q · k", row.dots, true], ["score", row.scores, true]].filter(([, found]) => found);
    if (columns.length) table(parent, keysOf(step.attention), columns);
  },
  mask(parent, step) {
    const { excluded } = weighed(choice, step.attention), row = numbersOf(step, choice)[0][1];
    const rows = ofAll(step, (each) => each.masked || each.excluded.map((out) => (out ? -Infinity : 0)));
    const both = element("div", parent, { className: "beside" });
    square(both, rows, topOf(rows.flat()), "scores of the head, grey where a key is left out");
    table(both, keysOf(step.attention), [["score", row, true]], excluded);
  },
  softmax(parent, step) {
    const row = attended(choice, step.attention);
    const columns = [["exp(s − max)", row.powers, true], ["weight", row.weights, true]].filter(([, found]) => found);
    const both = element("div", parent, { className: "beside" });
    const rows = ofAll(step, (each) => each.weights);
    square(both, rows, topOf(rows.flat()), "weights of the head");
    table(both, keysOf(step.attention), columns, row.excluded);
    if (keysOf(step.attention).length !== data.tokens.length || layers[choice.layer].crosses[step.attention]) return;
    const [earlier, own, later] = directions(row.weights, choice.token);
    element("p", parent, { textContent: `Before it: ${digits(earlier)}, on itself: ${digits(own)}, after it: ${digits(later)} of the weight.` });
  },
  sum(parent, step) {
    const row = attended(choice, step.attention), keys = keysOf(step.attention);
    const parts = row.values.map((value, k) => [`${digits(row.weights[k])} · ${keys[k]}`, value.map((x) => row.weights[k] * x)]);
    const more = element("details", parent, { open: keys.length <= 12 });
    element("summary", more, { textContent: `${many(keys.length, "value")}, each times its weight` });
    strips(element("div", more, { className: "rows" }), parts, topOf(parts.flatMap(([, part]) => part)));
    strips(parent, [["their sum z", row.result]]);
    allNumbers(parent, [["z", row.result]]);
  },
  weights(parent, step) {
    element("p", parent, { textContent: step.says });
  },
  layers(parent) {
    const more = element("details", parent), sizes = layers.map((each) => each.lengths[choice.token]);
    element("summary", more, { textContent: `${many(layers.length, "layer")} of ${many(headsOf(0).length, "head")}` });
    if (sizes[0] !== undefined) {
      element("p", parent, { textContent: `Length of the row after each layer: ${sizes.map(digits).join("  ")}` });
    }
    const fill = () => {
      if (!more.open || more.children.length > 1) return;
      const grid = element("div", more, { className: "grid" });
      const heads = layers.reduce((most, each) => Math.max(most, each.weights[0].heads), 0);
      grid.style.gridTemplateColumns = `auto repeat(${heads}, minmax(14px, 48px))`;
      const buttons = layers.flatMap((each, layer) => {
        element("span", grid, { className: "name", textContent: layer });
        return counted("", heads).map((_, head) => {
          if (head >= each.weights[0].heads) return element("span", grid);
          const button = element("button", grid, { type: "button", title: `layer ${layer}, head ${head} ${data.says[0][layer][head]}` });
          button.setAttribute("aria-pressed", layer === choice.layer && head === choice.head);
          button.setAttribute("aria-label", button.title);
          paint(element("canvas", button), ...each.weights[0].picture(0, head, 48), 1);
          button.addEventListener("click", () => choose({ layer, head }));
          return button;
        });
      });
      walk(buttons.filter((button) => button.type), heads, 1);
    };
    more.addEventListener("toggle", fill);
  },
  logits(parent) {
    const found = candidatesOf(choice.token);
    table(parent, found.labels, [["logit", found.logits, true]], [], "candidate");
  },
  probabilities(parent) {
    const found = candidatesOf(choice.token);
    table(parent, found.labels, [["probability", found.probabilities, true]], [], "candidate");
  },
};
// Draws all steps, and marks those that show something else than before.
function draw() {
  const steps = isStored(choice.layer) ? stepsOf(choice.layer) : [...data.before, ...leftOut(), ...data.after];
  const shown = new Map(), changed = [];
  sections.replaceChildren();
  links.replaceChildren();
  const inside = isStored(choice.layer) ? layers[choice.layer].steps : [];
  steps.forEach((step, i) => {
    if (step === inside[0]) begin(steps.length > inside.length + 1);
    const section = element("section", sections, { className: "explained" });
    element("h4", section, { textContent: `${i + 1}  ${step.title}`, tabIndex: -1 });
    if (step.formula) formula(section, step.formula);
    element("p", section, { className: "shapes", textContent: step.shapes });
    element("p", section, { textContent: step.says });
    const told = isStored(choice.layer) || step.kind !== "weights" ? toldOf(step, choice) : "";
    element("p", section, { className: "here", textContent: told });
    drawn[step.kind](section, step);
    const key = step.kind + i, numbers = step.kind === "weights" ? "" : JSON.stringify(numbersOf(step, choice)) + told;
    shown.set(key, numbers);
    if (before.size && before.get(key) !== numbers) {
      section.classList.add("changed");
      changed.push(i + 1);
    }
    const link = element("button", links, { type: "button", textContent: i + 1, title: step.title });
    link.setAttribute("aria-label", `step ${i + 1}: ${step.title}`);
    link.addEventListener("click", () => {
      section.scrollIntoView({ block: "start" });
      section.firstChild.focus({ preventScroll: true });
    });
  });
  note.textContent = `Layer ${choice.layer}, head ${choice.head}, token ${choice.token} ${quoted(data.tokens[choice.token])}`
    + (before.size ? changed.length ? `: steps ${listed(changed)} changed.` : ": nothing changed." : ".");
  before = shown;
  ask();
}

// Says where the steps of the layer begin.
function begin(isPart) {
  const { layer, head } = choice, earlier = layer === 1 ? "layer 0" : `layers 0 to ${layer - 1}`;
  const part = element("div", sections, { className: "begins" });
  element("h3", part, { textContent: `Layer ${layer}, head ${head}` });
  element("p", part, { textContent: `${layer && isPart ? `The rows have come through ${earlier}. ` : ""}This head ${data.says[0][layer][head]}.` });
}

function leftOut() {
  const stored = layers.map((_, i) => i).filter(isStored);
  const says = `Of layer ${choice.layer} this page keeps the weights alone; all numbers of ${stored.length > 1 ? "layers" : "layer"} ${listed(stored)}. `
    + `explain(..., layers=[${[...stored, choice.layer].join(", ")}]) keeps those of both.`;
  return [{ kind: "weights", title: "Weights", formula: "", shapes: "", says }];
}

function ask() {
  asking.replaceChildren();
  if (!isStored(choice.layer)) return;
  element("h4", asking, { textContent: "Six questions" });
  questionsOf(choice).forEach(([question, answer]) => {
    const more = element("details", asking);
    element("summary", more, { textContent: question });
    element("p", more, { textContent: answer });
  });
}

follow(draw);
