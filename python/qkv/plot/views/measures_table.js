// A table of numbers per head, sorted by the column whose heading is chosen; a row chooses its head.
stage.replaceChildren();
let chosen = [0, 0];
const names = ["layer", "head", ...data.names];
const wide = element("div", stage, { className: "wide rows" }), table = element("table", wide);
const headings = element("tr", element("thead", table)), body = element("tbody", table);
let by = 0, falling = false;

const buttons = names.map((name, i) => {
  const cell = element("th", headings, { scope: "col", title: data.meanings[name] || "" });
  const button = element("button", cell, { textContent: name, type: "button" });
  button.addEventListener("click", () => {
    falling = by === i ? !falling : i > 1;
    by = i;
    draw();
  });
  return [cell, button];
});

const shownAs = (value, i) => (value === null ? "" : i < 2 ? `${value}` : value.toFixed(3));

function draw() {
  const last = (row) => (row[by] === null ? 1 : 0);
  const rows = [...data.rows].sort((a, b) => last(a) - last(b) || (falling ? b[by] - a[by] : a[by] - b[by]));
  body.replaceChildren();
  const ends = names.map((_, i) => Math.max(...data.rows.map((row) => row[i] ?? 0)) || 1);
  const hue = color("more").split(" ").join(",");
  rows.forEach((row) => {
    const line = element("tr", body, { tabIndex: 0 });
    line.classList.toggle("chosen", row[0] === chosen[0] && row[1] === chosen[1]);
    const choose = () => { chosen = [row[0], row[1]]; mark(); tellChosen(...chosen); };
    line.addEventListener("click", choose);
    line.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
    row.forEach((value, i) => {
      const cell = element("td", line, { className: "number", textContent: shownAs(value, i) });
      if (i > 1 && value > 0) cell.style.backgroundColor = `rgba(${hue},${(0.5 * value / ends[i]).toFixed(3)})`;
    });
  });
  buttons.forEach(([cell], i) => {
    if (i === by) cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
  note.textContent = `${rows.length} heads, sorted by ${names[by]}`;
}

function mark() {
  [...body.children].forEach((line) => {
    const [layer, head] = [...line.children].slice(0, 2).map((cell) => +cell.textContent);
    line.classList.toggle("chosen", layer === chosen[0] && head === chosen[1]);
  });
}
whenChosen((layer, head) => { chosen = [layer, head]; mark(); });

draw();
follow(draw);
