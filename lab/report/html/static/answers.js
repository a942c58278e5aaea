// The first screen: shows the answer to what the reader has chosen. All answers are in the page.
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
    const track = element("span", "track");
    const fill = element("span", "fill");
    fill.style.width = `${one.width}%`;
    track.append(fill);
    if (one.low !== null) {
      const range = element("span", "range");
      range.style.left = `${one.low}%`;
      range.style.width = `${Math.max(one.high - one.low, 0.2)}%`;
      range.title = one.said;
      track.append(range);
    }
    line.append(element("span", "who", one.name), track, element("span", "rate", one.rate));
    line.addEventListener("click", () => Records.show(one.name, one.lines));
    return line;
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
      section.querySelector(".top").replaceChildren(...answer.top.map(bar));
      const rest = section.querySelector(".rest");
      rest.hidden = answer.rest.length === 0;
      rest.querySelector("summary").textContent = answer.rest_title;
      rest.querySelector("ol").replaceChildren(...answer.rest.map(bar));
      const unbounded = section.querySelector(".unbounded");
      unbounded.hidden = answer.unbounded.length === 0;
      unbounded.querySelector("ol").replaceChildren(...answer.unbounded.map(bar));
    }
    section.addEventListener("change", show);
    show();
  });
})();
