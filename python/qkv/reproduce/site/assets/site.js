// Search and filter of the index, figures enlarged, light and dark. Everything can be read without it.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function theme() {
  const button = document.querySelector("button.theme");
  const root = document.documentElement;
  button.hidden = false;
  button.addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("qkv-theme", root.dataset.theme);
    } catch (error) {
      // The choice holds for this page.
    }
  });
}

function search() {
  const form = document.querySelector("form.search");
  if (!form) return;
  const field = form.querySelector("input");
  const found = form.querySelector("output");
  const buttons = all("button[data-state]", form);
  const rows = all(".experiments li");
  let state = "";

  function update() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const fits =
        (!state || row.dataset.state === state) && words.every((word) => row.dataset.search.includes(word));
      row.hidden = !fits;
      count += fits;
    }
    const narrowed = Boolean(state || words.length);
    document.querySelector("main.index").classList.toggle("narrowed", narrowed);
    for (const part of all(".book, .document")) {
      part.hidden = narrowed && !part.querySelector(".experiments li:not([hidden])");
    }
    found.textContent = narrowed ? `${count} experiment${count === 1 ? "" : "s"} found` : "";
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", update);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      state = button.dataset.state;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      update();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== field) {
      event.preventDefault();
      field.focus();
    }
  });
  update();
}

function figures() {
  const links = all("a.zoom");
  const viewer = document.querySelector("dialog.viewer");
  const image = viewer.querySelector("img");
  const words = viewer.querySelector("p");
  let place = 0;

  function show(number) {
    place = (number + links.length) % links.length;
    viewer.classList.remove("full");
    image.src = links[place].href;
    image.alt = links[place].querySelector("img").alt;
    words.textContent = links[place].parentElement.querySelector("figcaption").textContent;
    if (!viewer.open) viewer.showModal();
  }

  const actions = {
    before: () => show(place - 1),
    after: () => show(place + 1),
    size: () => viewer.classList.toggle("full"),
    close: () => viewer.close(),
  };
  links.forEach((link, number) =>
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      show(number);
    })
  );
  viewer.addEventListener("click", (event) => {
    const name = event.target.dataset.do;
    if (name) actions[name]();
    else if (event.target === image) actions.size();
    else if (event.target !== words) actions.close();
  });
  viewer.addEventListener("keydown", (event) => {
    const keys = { ArrowLeft: "before", ArrowRight: "after", "+": "size", "-": "size" };
    if (keys[event.key] && !(viewer.classList.contains("full") && event.key.startsWith("Arrow"))) {
      event.preventDefault();
      actions[keys[event.key]]();
    }
  });
  viewer.addEventListener("close", () => links[place].focus());
}

function sections() {
  // On a narrow screen the list of sections starts closed.
  const list = document.querySelector(".sections details");
  if (list && matchMedia("(max-width: 1099px)").matches) list.open = false;
}

function checks() {
  // What passed is folded; one button shows all of it, and so does a link to a check.
  const folded = all("details.passed");
  const button = document.querySelector("button.unfold");
  if (!button || !folded.length) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-pressed") !== "true";
    for (const part of folded) part.open = open;
    button.setAttribute("aria-pressed", String(open));
    button.textContent = open ? "Fold what passed" : "Show all checks";
  });
  function reveal() {
    const row = location.hash.startsWith("#check-") && document.getElementById(location.hash.slice(1));
    const part = row && row.closest("details.passed");
    if (part && !part.open) {
      part.open = true;
      row.scrollIntoView();
    }
  }
  addEventListener("hashchange", reveal);
  reveal();
}

theme();
search();
checks();
figures();
sections();
