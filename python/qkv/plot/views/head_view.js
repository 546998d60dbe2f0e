const LINE = 22, LEFT = 150, RIGHT = 350, TOP = 12, LEAST = 0.005;  // as in head_view.py
const weights = weightsOf(data.weights), top = Math.max(data.weights.top, 1);
const layer = select("layer", counted("", weights.layers), data.layer, draw);
const head = select("head", data.heads, data.head, draw);
shareChosen(layer, head, draw);
const part = select("from → to", data.parts.map((each) => each.name), data.part, lay);
let chosen = null, pinned = false, texts = {};

const height = (place) => TOP + place * LINE + LINE / 2;

// Writes the tokens of the chosen part, and makes room for the longest.
function lay() {
  const { queries, keys } = data.parts[+part.value];
  drawing.textContent = "";
  shape("g", drawing, { class: "lines" });
  chosen = null;
  [["query", data.queries, queries, LEFT - 8, "end"], ["key", data.keys, keys, RIGHT + 8, "start"]].forEach((column) => {
    const [side, tokens, [begin, end], x, anchor] = column;
    texts[side] = tokens.slice(begin, end).map((token, i) => {
      const text = shape("text", drawing, { class: side, x, y: height(i), dy: "0.35em", "text-anchor": anchor }, token);
      const choose = () => { if (!pinned) { chosen = { side, place: begin + i }; draw(); } };
      const leave = () => { if (!pinned) { chosen = null; draw(); } };
      text.setAttribute("role", "button");
      text.setAttribute("aria-label", side + " " + token);
      text.addEventListener("mouseenter", choose);
      text.addEventListener("mouseleave", leave);
      text.addEventListener("focus", () => { pinned = false; choose(); });
      text.addEventListener("blur", () => { pinned = false; leave(); });
      text.addEventListener("click", () => {
        const again = pinned && chosen && chosen.side === side && chosen.place === begin + i;
        pinned = false;
        if (again) { chosen = null; draw(); } else { choose(); pinned = true; }
      });
      text.addEventListener("keydown", (event) => {
        if (event.key === "Escape") text.blur();
        const other = texts[{ ArrowRight: "key", ArrowLeft: "query" }[event.key]];
        if (other && other[i]) { event.preventDefault(); other[i].focus(); }
      });
      return text;
    });
    walk(texts[side], 1, 0);
  });
  const box = drawing.getBBox();
  if (box.width > 0) {
    const wide = box.width + 16, high = TOP + LINE * Math.max(texts.query.length, texts.key.length) + TOP;
    drawing.setAttribute("viewBox", [box.x - 8, 0, wide, high].join(" "));
    drawing.setAttribute("width", wide);
    drawing.style.minWidth = 0.8 * wide + "px";  // readable beside a long token: the stage scrolls
  }
  draw();
}

function draw() {
  const lines = drawing.querySelector("g.lines"), { queries, keys } = data.parts[+part.value];
  const at = chosen && chosen.place, byQuery = chosen && chosen.side === "query", found = [];
  lines.textContent = "";
  for (let q = queries[0]; q < queries[1]; q++) {
    if (byQuery && q !== at) continue;
    weights.each(+layer.value, +head.value, q, (k, weight) => {
      if (Math.abs(weight) <= LEAST || weight === -Infinity || k < keys[0] || k >= keys[1] || (chosen && !byQuery && k !== at)) return;
      shape("line", lines, {
        x1: LEFT, x2: RIGHT, y1: height(q - queries[0]), y2: height(k - keys[0]),
        class: shade(weight, 1)[0], "stroke-opacity": weight === weight ? Math.min(Math.abs(weight) / top, 1).toFixed(3) : 1,
      });
      found.push([weight, byQuery ? data.keys[k] : data.queries[q]]);
    });
  }
  Object.keys(texts).forEach((side) => texts[side].forEach((text, i) => {
    const place = i + (side === "query" ? queries : keys)[0];
    text.classList.toggle("chosen", Boolean(chosen) && chosen.side === side && chosen.place === place);
  }));
  if (!chosen) { note.textContent = ""; return; }
  found.sort((a, b) => loud(b[0]) - loud(a[0]));
  const rest = byQuery ? weights.rest(+layer.value, +head.value, at) : 0;
  note.textContent = found.slice(0, 5).map(([weight, token]) => isolated(token) + " " + percent(weight)).join("   ")
    + (rest > 0 ? "   the others of the row together " + percent(rest) : "");
}

follow(() => { if (texts.query) draw(); else lay(); });
