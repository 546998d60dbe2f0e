var values = {};

// A control whose integers are places shows the numbers there.
function shown(x, control) {
  if (control.at.length) x = control.at[x];
  return Math.abs(x) < 1e4 && x === Math.round(x) ? String(x) : x.toPrecision(3);
}

data.controls.forEach(function (control) {
  var box = element("label", controls, { textContent: control.label + " " });
  var log = control.kind === "log", tick = control.kind === "bool";
  var input = element("input", box, tick ? { type: "checkbox" } : { type: "range" });
  values[control.name] = control.value;
  if (tick) {
    input.checked = control.value !== 0;
  } else {
    input.min = log ? Math.log10(control.low) : control.low;
    input.max = log ? Math.log10(control.high) : control.high;
    input.step = log ? "any" : 1;
    input.value = log ? Math.log10(control.value) : control.value;
  }
  input.name = control.name;
  var note = element("span", box, { className: "note", textContent: tick ? "" : " " + shown(control.value, control) });
  input.addEventListener("input", function () {
    values[control.name] = tick ? +input.checked : log ? Math.pow(10, +input.value) : +input.value;
    if (!tick) note.textContent = " " + shown(values[control.name], control);
    draw();
  });
});

// exp(s) / sum exp(s) over the entries that are not null; zeros where all are.
function softmax(row) {
  var top = row.reduce(function (m, s) { return s === null ? m : Math.max(m, s); }, -Infinity), sum = 0;
  var powers = row.map(function (s) {
    var p = s === null ? 0 : Math.exp(s - top);
    sum += p;
    return p;
  });
  return powers.map(function (p) { return sum > 0 ? p / sum : 0; });
}

function attention() {
  var cells = drawing.querySelectorAll("rect.cell"), width = data.keys.length;
  var shares = drawing.querySelectorAll("text.cell");
  data.scores.forEach(function (row, q) {
    softmax(row.map(function (s, k) {
      var allowed = s !== null && k < values.valid_len && (!values.is_causal || k <= q);
      return allowed ? s / values.temperature : null;
    })).forEach(function (weight, k) {
      var cell = cells[q * width + k];
      cell.setAttribute("fill-opacity", weight.toFixed(6));
      shares[q * width + k].textContent = weight === 0 ? "·" : weight < 0.005 ? "<1" : (100 * weight).toFixed(0);
      shares[q * width + k].classList.toggle("strong", weight > 0.5);
      cell.firstChild.textContent = data.queries[q] + ", " + data.keys[k] + ": " + weight.toFixed(4);
    });
  });
}

var kernels = {
  boxcar: function (u) { return u < 1 ? 1 : 0; },
  constant: function () { return 1; },
  epanechnikov: function (u) { return Math.max(1 - u * u, 0); },
  triangular: function (u) { return Math.max(1 - u, 0); }
};
function shares(x) {
  var scaled = data.x.map(function (t) { return Math.abs(x - t) / values.bandwidth; });
  if (data.kernel === "gaussian") return softmax(scaled.map(function (u) { return -u * u / 2; }));
  var raw = scaled.map(kernels[data.kernel]), sum = raw.reduce(function (a, b) { return a + b; }, 0);
  return raw.map(function (w) { return sum > 0 ? w / sum : 0; });
}

function regression() {
  var frame = drawing.querySelector("rect"), box = data.box;
  var size = ["x", "y", "width", "height"].map(function (name) { return +frame.getAttribute(name); });
  function across(x) { return size[0] + size[2] * (x - box[0]) / (box[1] - box[0] || 1); }
  function down(y) { return size[1] + size[3] * (box[3] - y) / (box[3] - box[2]); }
  var points = data.at.map(function (x) {
    var y = shares(x).reduce(function (sum, w, i) { return sum + w * data.y[i]; }, 0);
    return across(x).toFixed(2) + "," + down(y).toFixed(2);
  });
  drawing.querySelector(".estimate").setAttribute("points", points.join(" "));
  var at = data.at[values.query], line = drawing.querySelector(".query"), chosen = shares(at);
  line.setAttribute("x1", across(at).toFixed(2));
  line.setAttribute("x2", across(at).toFixed(2));
  var top = Math.max.apply(null, chosen) || 1;
  drawing.querySelectorAll(".point").forEach(function (point, i) {
    point.setAttribute("r", (3 + 4 * chosen[i] / top).toFixed(2));
    point.setAttribute("fill-opacity", (chosen[i] / top).toFixed(4));
  });
}

function draw() { ({ attention: attention, regression: regression })[data.model](); }
draw();
