// A text as coloured tokens, in three states that differ without colour: underlined, plain, italic.

import { h } from "./dom.js";

export const kind = (state) => (state === "green" || state === "red" ? state : "out");

export function legend() {
  return h("p", { class: "legend", "aria-hidden": "true" },
    h("span", { class: "green" }, "green"), " ", h("span", { class: "red" }, "red"), " ",
    h("span", { class: "out" }, "does not count"));
}

export const token = ({ text, state }) => h("span", { class: kind(state), "data-state": state }, text);

/** The tokens of a text; arrow keys or the pointer go through them and a line below tells of each. */
export function tokenText(pieces, evidence) {
  let counted = 0;
  const told = pieces.map((piece, place) => {
    const counts = kind(piece.state) !== "out";
    const after = counts ? evidence[counted] : null;
    counted += counts;
    return `Token ${place + 1} of ${pieces.length}, “${piece.text.trim() || "blank"}”: ` +
      (counts ? `${piece.state}; evidence so far ${after?.toFixed(1) ?? "–"} nats` : `does not count (${piece.state})`);
  });
  const spans = pieces.map(token);
  const line = h("p", { class: "readout", role: "status", "data-testid": "readout" }, "Point at a token, or go through them with the arrow keys.");
  let current = -1;
  const go = (place) => {
    spans[current]?.classList.remove("current");
    current = Math.max(0, Math.min(spans.length - 1, place));
    spans[current].classList.add("current");
    line.textContent = told[current];
  };
  const box = h("div", { class: "text", tabindex: 0, role: "group", "data-testid": "tokens",
    "aria-label": "Text with its tokens; arrow keys move through them",
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
      if (!step || spans.length === 0) return;
      event.preventDefault();
      go(current + step);
    },
    onpointerover: (event) => {
      const place = spans.indexOf(event.target);
      if (place >= 0) go(place);
    } }, spans);
  return h("div", {}, box, line);
}
