// A picker chooses which rows of a table or chart are shown.
"use strict";

const Pickers = (() => {
  // The chosen option of each picker, by its name.
  function chosen(panel) {
    const found = {};
    for (const input of panel.querySelectorAll(".picker input:checked")) {
      found[input.dataset.name] = input.value;
    }
    return found;
  }
  // A row without a key is always shown.
  function matches(keys, wanted) {
    return Object.entries(wanted).every(([name, value]) => !(name in keys) || keys[name] === value);
  }
  // The positions of the chosen options, in the order of the pickers, as in `data-choice`.
  function places(pickers) {
    return [...pickers.querySelectorAll(".picker")].map((picker) =>
      [...picker.querySelectorAll("input")].findIndex((input) => input.checked));
  }
  function hide(elements, wanted) {
    for (const element of elements) {
      const own = element.dataset.choice.split(",");
      element.hidden = own.some((place, index) => place !== "" && Number(place) !== wanted[index]);
    }
  }
  function filter(panel) {
    hide(panel.querySelectorAll("tbody tr[data-choice]"), places(panel.querySelector(".pickers")));
  }
  // A gallery's pickers choose among whole tables.
  function browse(gallery) {
    hide(gallery.querySelectorAll(":scope > .panel[data-choice]"), places(gallery.querySelector(".pickers")));
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
    for (const row of document.querySelectorAll("[data-choice]")) row.hidden = false;
  });
  window.addEventListener("afterprint", apply);
  return { chosen, matches };
})();
