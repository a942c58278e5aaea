// The records behind a number: their lines in the file, their JSON, and the commands that repeat
// them. The page has them compressed and unpacks them on first use.
"use strict";

const Records = (() => {
  let unpacked = null;

  async function all() {
    if (unpacked) return unpacked;
    const packed = Uint8Array.from(
      atob(document.getElementById("records-data").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    unpacked = new Map(JSON.parse(await new Response(stream).text()));
    return unpacked;
  }

  function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function repeat(words) {
    const line = element("div", undefined, "repeat");
    const command = words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
    const copy = element("button", "Copy", "copy");
    copy.type = "button";
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(command);
        copy.textContent = "Copied";
      } catch {
        // No permission: select the command, so that the reader can copy it.
        getSelection().selectAllChildren(line.firstChild);
      }
    });
    line.append(element("pre", command), copy);
    return line;
  }

  function one(line, record, file) {
    const box = element("details");
    const where = ["variant", "capacity", "placement"].map((key) => record[key]).filter((x) => x !== undefined);
    const round = record.round ? `, round ${record.round}` : "";
    box.append(element("summary", `${file}:${line}: ${where.join(", ")}${round}, ${record.outcome}`));
    if (record.repeat?.length) box.append(element("h4", "Measure this cell again"), repeat(record.repeat));
    box.append(element("h4", "The record"), element("pre", JSON.stringify(record, null, 1)));
    return box;
  }

  // The name of a row: its texts before the first figure.
  function nameOf(row) {
    const cells = [...row.cells];
    const end = cells.findIndex((cell) => !cell.classList.contains("t"));
    return cells.slice(0, end).map((cell) => cell.textContent).filter(Boolean).join(", ");
  }

  function linesOf(button) {
    return button.dataset.lines.split(" ").map(Number);
  }

  async function show(title, lines) {
    const dialog = document.getElementById("records-dialog");
    const file = dialog.dataset.file;
    dialog.querySelector("h3").textContent = title;
    const body = dialog.querySelector(".body");
    body.replaceChildren();
    dialog.showModal();
    try {
      const records = await all();
      body.replaceChildren(...lines.map((line) => one(line, records.get(line), file)));
      if (lines.length === 1) body.firstChild.open = true;
    } catch (error) {
      const places = lines.map((line) => `${file}:${line}`).join(", ");
      body.replaceChildren(element("p", `This browser cannot unpack the records (${error.message}). They are in ${places}.`));
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.records");
    if (button) {
      show(nameOf(button.closest("tr")), linesOf(button));
    }
  });
  // Set a button's tooltip when the pointer or the focus first reaches it.
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const button = event.target.closest?.("button.records:not([title])");
      if (!button) return;
      const file = document.getElementById("records-dialog").dataset.file;
      button.title = linesOf(button).map((line) => `${file}:${line}`).join(", ");
      button.setAttribute("aria-label", `Records of ${nameOf(button.closest("tr"))}`);
    });
  }
  document.addEventListener("DOMContentLoaded", () => {
    const dialog = document.getElementById("records-dialog");
    dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  });
  return { show };
})();
