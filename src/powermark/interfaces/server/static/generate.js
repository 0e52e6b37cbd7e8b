// Generate: the same prompt with the mark and without, side by side, with evidence as they grow.

import { lines } from "./api.js";
import { draw } from "./chart.js";
import { keepText } from "./detect.js";
import { field, h, problem, select } from "./dom.js";
import { legend, token } from "./tokens.js";

const STARTS = { chat: "Why is the sky blue?", raw: "The city council met on Tuesday" };
let kept = null; // survives a look at another view, and never enters the address

export function generateView(loaded, query, remember) {
  const ready = loaded.specs.filter(({ detects }) => detects !== "nothing");
  const fields = { spec: ready[0]?.name, n_tokens: "120", ...Object.fromEntries(query) };
  const spec = select("spec", ready.map(({ name }) => [name, name]), fields.spec);
  const prompt = h("textarea", { id: "prompt", rows: 3, required: true, maxlength: 10000, "data-testid": "prompt" });
  const style = select("style", [["", "as in the spec's plan"], ["chat", "a question to answer"], ["raw", "a text to continue"]], fields.style ?? "");
  prompt.value = kept ?? STARTS[loaded.chat ? "chat" : "raw"];
  prompt.addEventListener("input", () => { kept = prompt.value; });
  const length = h("input", { id: "n_tokens", type: "number", min: 1, max: 512, "data-testid": "n_tokens" });
  length.value = fields.n_tokens;
  const seed = h("input", { id: "seed", type: "number", min: 0, max: 2147483647, placeholder: "by chance", "data-testid": "seed" });
  seed.value = fields.seed ?? "";
  const button = h("button", { class: "primary", "data-testid": "write" }, "Write");
  const status = h("div", { class: "help", role: "status", "data-testid": "status" });
  const holder = h("div", { class: "holder" });
  const panes = ["With the mark", "Without the mark"].map((title, row) => {
    const text = h("div", { class: "text", "data-testid": `text-${row}` });
    const count = h("p", { class: "count", "data-testid": `count-${row}` });
    const look = h("button", { type: "button", hidden: true, onclick: () => { keepText(text.textContent); location.hash = "#/detect"; } }, "Examine this text");
    return { text, count, look, path: [0], element: h("section", { class: "card" }, h("h3", {}, title), count, text, look) };
  });
  let running = null;

  async function write() {
    if (running) { running.abort(); return; }
    running = new AbortController();
    remember({ spec: spec.value, n_tokens: length.value, seed: seed.value, style: style.value });
    button.textContent = "Stop";
    status.textContent = "Writing …";
    for (const pane of panes) { pane.text.replaceChildren(); pane.path = [0]; pane.look.hidden = true; }
    const body = { spec: spec.value, prompt: prompt.value, n_tokens: Number(length.value), compare: true,
      ...(style.value === "" ? {} : { raw: style.value === "raw" }), ...(seed.value === "" ? {} : { seed: Number(seed.value) }) };
    try {
      for await (const event of lines("/v1/generate", body, running.signal)) {
        if (event.error) throw event.error;
        if (event.rows) event.rows.forEach(step);
        if (event.records) {
          const empty = event.records.some(({ text }) => !text.trim()) ? ["The model wrote nothing for at least one of them."] : [];
          status.textContent = ["Done.", ...empty, ...event.notes].join(" ");
        }
      }
    } catch (error) {
      status.replaceChildren(error.name === "AbortError" ? "Stopped." : problem(error));
    } finally {
      for (const pane of panes) pane.look.hidden = !pane.text.textContent;
      button.textContent = "Write";
      running = null;
    }
  }

  function step(row, place) {
    const pane = panes[place];
    if (row.state === "ended") return;
    pane.text.append(token(row));
    if (row.state === "green" || row.state === "red") pane.path.push(row.log_e);
    pane.count.textContent = `${row.green} of ${row.scored} green; evidence ${row.log_e.toFixed(1)} nats` +
      (row.detected_at ? `; enough after ${row.detected_at}` : "");
    drawEvidence();
  }

  function drawEvidence() {
    const design = loaded.specs.find(({ name }) => name === spec.value)?.spec.design;
    const goal = -Math.log(design?.alpha ?? 0.01);
    const all = panes.flatMap(({ path }) => path);
    const longest = Math.max(10, ...panes.map(({ path }) => path.length - 1));
    draw(holder, {
      testid: "live-evidence", title: "Running evidence", height: 240,
      description: `Evidence with the mark ${panes[0].path.at(-1).toFixed(1)} nats, without ${panes[1].path.at(-1).toFixed(1)}; ${goal.toFixed(1)} are enough.`,
      x: { label: "counted tokens", domain: [0, longest] }, y: { label: "nats", domain: [Math.min(-1, ...all), Math.max(goal * 1.2, ...all)] },
      layers: [{ kind: "horizontal", style: "goal", at: goal, label: `${goal.toFixed(1)} nats are enough` }, { kind: "horizontal", style: "zero", at: 0 },
        ...panes.map(({ path }, i) => ({ kind: "line", style: i ? "second" : "main", hover: false, points: path.map((v, n) => [n, v]), testid: `live-${i}` }))],
    });
  }

  const element = h("div", { class: "view generate" },
    h("section", { class: "panel", "aria-labelledby": "generate-title" },
      h("h1", { id: "generate-title" }, "Write with the mark"),
      h("p", { class: "lead" }, `${loaded.model} writes twice, with the mark and without.`),
      h("form", { onsubmit: (event) => { event.preventDefault(); write(); } },
        field("Spec", spec), field("Prompt", prompt), loaded.chat ? field("Prompt is", style) : "", field("Tokens", length), field("Seed", seed, "The same seed writes the same texts."),
        h("p", { class: "copies" }, button), status)),
    h("section", { class: "answer", "aria-label": "The texts" }, legend(), h("div", { class: "panes" }, panes.map((pane) => pane.element)),
      h("figure", { class: "card" }, h("h3", {}, "Running evidence"), holder,
        h("figcaption", {}, "The full line has the mark, the dotted one has not."))));
  return { element, enter: drawEvidence, leave: () => running?.abort() };
}
