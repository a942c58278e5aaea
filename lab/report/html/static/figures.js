// Formats numbers in the same way as the terminal.
"use strict";

const Figures = (() => {
  function digits(number) {
    if (number <= 0) return "0";
    if (number >= 999.5) return Math.round(number).toLocaleString("en-US");
    return Number(number.toPrecision(3)).toLocaleString("en-US", {
      minimumFractionDigits: number < 9.995 ? 2 : number < 99.95 ? 1 : 0,
      maximumFractionDigits: 2,
    });
  }
  function duration(ns) {
    for (const [unit, size] of [["ns", 1], ["µs", 1e3], ["ms", 1e6]]) {
      if (ns < 999.5 * size) return `${digits(ns / size)} ${unit}`;
    }
    return `${digits(ns / 1e9)} s`;
  }
  function tick(ns) {
    for (const [unit, size] of [["ns", 1], ["µs", 1e3], ["ms", 1e6]]) {
      if (ns < 1000 * size) return `${+(ns / size).toPrecision(3)} ${unit}`;
    }
    return `${+(ns / 1e9).toPrecision(3)} s`;
  }
  function count(number) {
    if (number >= 1e9) return `${+(number / 1e9).toPrecision(3)} G`;
    if (number >= 1e6) return `${+(number / 1e6).toPrecision(3)} M`;
    return Math.round(number).toLocaleString("en-US");
  }
  const FORMATS = {
    ns: { exact: duration, tick },
    s: { exact: (x) => duration(x * 1e9), tick: (x) => `${+x.toPrecision(3)} s` },
    rate: { exact: (x) => `${Math.round(x).toLocaleString("en-US")}/s`, tick: count },
    share: { exact: (x) => `${(x * 100).toFixed(2)} %`, tick: (x) => `${+(x * 100).toPrecision(3)} %` },
    bytes: { exact: (x) => `${(x / 1e6).toFixed(3)} MB`, tick: (x) => `${+(x / 1e6).toPrecision(3)} MB` },
    count: { exact: (x) => Math.round(x).toLocaleString("en-US"), tick: count },
  };
  return { of: (unit) => FORMATS[unit] };
})();
