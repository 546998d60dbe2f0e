
  "use strict";
  var data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  var svg = root.querySelector("svg"), lines = svg.querySelector("g.lines"), controls = root.querySelector(".controls");
  var queries = svg.querySelectorAll("text.query"), keys = svg.querySelectorAll("text.key");
  var chosen = null;

  function selector(label, names) {
    var box = document.createElement("label"), list = document.createElement("select");
    names.forEach(function (name, i) {
      var option = document.createElement("option");
      option.textContent = name;
      option.value = i;
      list.appendChild(option);
    });
    box.textContent = label + " ";
    box.appendChild(list);
    controls.appendChild(box);
    return list;
  }
  function numbers(n) { return Array.from({ length: n }, function (_, i) { return String(i); }); }

  var layer = selector("layer", numbers(data.weights.length));
  var head = selector("head", numbers(data.weights[0].length).concat(["mean"]));
  var note = document.createElement("span");
  note.className = "note";
  controls.appendChild(note);

  function matrix() {
    var heads = data.weights[+layer.value], h = +head.value;
    if (h < heads.length) return heads[h];
    return heads[0].map(function (row, q) {
      return row.map(function (_, k) {
        return heads.reduce(function (sum, one) { return sum + one[q][k]; }, 0) / heads.length;
      });
    });
  }
  function height(text) { return +text.getAttribute("y"); }

  function draw() {
    var table = matrix(), found = [];
    lines.textContent = "";
    table.forEach(function (row, q) {
      row.forEach(function (weight, k) {
        if (weight <= 5 || (chosen && (chosen.side === "query" ? q : k) !== chosen.place)) return;
        var line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        line.setAttribute("x1", 150);
        line.setAttribute("x2", 350);
        line.setAttribute("y1", height(queries[q]));
        line.setAttribute("y2", height(keys[k]));
        line.setAttribute("stroke-opacity", Math.min(weight / 1000, 1));
        lines.appendChild(line);
        found.push([weight, chosen && chosen.side === "query" ? data.keys[k] : data.queries[q]]);
      });
    });
    [queries, keys].forEach(function (list, side) {
      list.forEach(function (text, place) {
        var here = chosen && chosen.place === place && (chosen.side === "query") === (side === 0);
        text.classList.toggle("chosen", Boolean(here));
      });
    });
    found.sort(function (a, b) { return b[0] - a[0]; });
    note.textContent = chosen
      ? found.slice(0, 4).map(function (f) { return f[1] + " " + (f[0] / 1000).toFixed(3); }).join("   ")
      : "";
  }
  [[queries, "query"], [keys, "key"]].forEach(function (pair) {
    pair[0].forEach(function (text, place) {
      text.addEventListener("mouseenter", function () { chosen = { side: pair[1], place: place }; draw(); });
      text.addEventListener("mouseleave", function () { chosen = null; draw(); });
    });
  });
  layer.addEventListener("change", draw);
  head.addEventListener("change", draw);
  draw();
