// The first screen: shows the answer to the reader's choice. The page contains all answers.
"use strict";

(() => {
  function element(name, className, text) {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function bar(one) {
    const line = element("li", `bar ${one.kind}${one.first ? " first" : ""}`);
    const who = element("span", "who", one.name);
    if (one.note) who.append(" ", element("small", "", one.note));
    const track = element("span", "track");
    const fill = element("span", "fill");
    fill.style.width = `${one.width}%`;
    track.append(fill);
    if (one.low !== null) {
      const range = element("span", "range");
      range.style.left = `${one.low}%`;
      range.style.width = `${Math.max(one.high - one.low, 0.2)}%`;
      track.append(range);
    }
    const rate = element("span", "rate", one.rate);
    rate.append(element("small", "", one.interval));
    return recorded(line, one, [who, track, rate]);
  }

  function aside(one) {
    const parts = [["who", one.name], ["why", one.reason], ["rate", one.rate]];
    return recorded(element("li", "not-ranked"), one, parts.map((part) => element("span", ...part)));
  }

  // A click on a line shows its records.
  function recorded(line, one, parts) {
    line.append(...parts);
    line.addEventListener("click", () => Records.show(one.name, one.lines));
    return line;
  }

  function fold(details, rows, made) {
    details.hidden = rows.length === 0;
    details.querySelector("ol").replaceChildren(...rows.map(made));
  }

  document.addEventListener("DOMContentLoaded", () => {
    const section = document.getElementById("answer");
    if (!section) return;
    const answers = JSON.parse(document.getElementById("answers-data").textContent);
    function show() {
      const chosen = [...section.querySelectorAll(".picker input:checked")].map((one) => one.value);
      const answer = answers[chosen.join("/")];
      section.querySelector(".winner strong").textContent = answer.name;
      section.querySelector(".tie").hidden = !answer.tie;
      section.querySelector(".reason").textContent = answer.reason;
      section.querySelector(".top-title").textContent = answer.top_title;
      section.querySelector(".top").replaceChildren(...answer.top.map(bar));
      section.querySelector(".rest summary").textContent = answer.rest_title;
      fold(section.querySelector(".rest"), answer.rest, bar);
      fold(section.querySelector(".unbounded"), answer.unbounded, bar);
      fold(section.querySelector(".asides"), answer.asides, aside);
    }
    section.addEventListener("change", show);
    show();
  });
})();
