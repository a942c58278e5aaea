// Light or dark: the system's setting, until the reader chooses.
"use strict";

const Theme = (() => {
  const KEY = "lab-theme";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // A page opened from a file may have no storage; the choice is then lost on reload.
  function kept() {
    try { return localStorage.getItem(KEY); } catch { return null; }
  }
  function keep(value) {
    try { localStorage.setItem(KEY, value); } catch { /* See above. */ }
  }
  let chosen = kept();

  function current() {
    return chosen ?? (dark.matches ? "dark" : "light");
  }
  function apply() {
    document.documentElement.dataset.theme = current();
    const button = document.getElementById("theme");
    if (button) button.textContent = current() === "dark" ? "Light" : "Dark";
    document.dispatchEvent(new Event("themechange"));
  }
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      chosen = current() === "dark" ? "light" : "dark";
      keep(chosen);
      apply();
    });
    apply();
  });
  apply();
  return { colour, current };
})();
