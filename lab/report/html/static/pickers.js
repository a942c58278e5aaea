// A picker chooses which rows of a table, or of a chart, are shown.
"use strict";

const Pickers = (() => {
  function chosen(panel) {
    const found = {};
    for (const input of panel.querySelectorAll(".picker input:checked")) {
      found[input.dataset.name] = input.value;
    }
    return found;
  }
  // A row that lacks a key is there whatever is chosen.
  function matches(keys, wanted) {
    return Object.entries(wanted).every(([name, value]) => !(name in keys) || keys[name] === value);
  }
  function filter(panel) {
    const wanted = chosen(panel);
    for (const row of panel.querySelectorAll("tbody tr[data-keys]")) {
      row.hidden = !matches(JSON.parse(row.dataset.keys), wanted);
    }
  }
  // A gallery's pickers choose among whole tables.
  function browse(gallery) {
    const wanted = chosen(gallery.querySelector(".pickers"));
    for (const panel of gallery.querySelectorAll(":scope > .panel[data-keys]")) {
      panel.hidden = !matches(JSON.parse(panel.dataset.keys), wanted);
    }
  }
  function apply() {
    for (const panel of document.querySelectorAll(".panel:has(table)")) {
      if (panel.querySelector(".picker")) filter(panel);
    }
    for (const gallery of document.querySelectorAll(".gallery")) browse(gallery);
  }
  document.addEventListener("change", (event) => {
    const pickers = event.target.closest?.(".pickers");
    if (!pickers) return;
    const owner = pickers.parentElement;
    if (owner.classList.contains("gallery")) browse(owner);
    else if (owner.querySelector("table")) filter(owner);
    owner.dispatchEvent(new Event("picked"));
  });
  document.addEventListener("DOMContentLoaded", apply);
  // Everything is printed.
  window.addEventListener("beforeprint", () => {
    for (const row of document.querySelectorAll("[data-keys]")) row.hidden = false;
  });
  window.addEventListener("afterprint", apply);
  return { chosen, matches };
})();
