// Detect: a text in, a verdict in plain words, the tokens and the evidence that led to it.

import { ask, post } from "./api.js";
import { draw } from "./chart.js";
import { field, h, number, percent, problem, save, select } from "./dom.js";
import { legend, tokenText } from "./tokens.js";

const LOOKS = { watermarked: ["found", "✓"], "no watermark found": ["absent", "–"], inconclusive: ["unsure", "?"] };
const MEANINGS = { watermarked: "Chance alone rarely makes a text fit the key so well.",
  "no watermark found": "A marked text of this length would most likely have been found.",
  inconclusive: "Too short or too repetitive to tell; it says how much text it needs." };
const TURN = "This says how the text fits one key's mark.";
const MOST = 400000; // characters of a file

let kept = ""; // the text survives a look at another view, and never enters the address

export function keepText(text) { kept = text; }

export function detectView(loaded, query, remember) {
  const ready = loaded.specs.filter(({ detects }) => detects === "texts");
  if (ready.length === 0) {
    return { element: h("div", { class: "view" }, h("h1", {}, "Examine a text"),
      h("p", { class: "lead" }, "No spec with its key and tokenizer is loaded. "),
      h("p", {}, "Start the server with a folder that has them: ", h("code", {}, "powermark demo -o out && powermark serve out"))) };
  }
  const fields = { spec: ready[0].name, detector: "", ...Object.fromEntries(query) };
  const spec = select("spec", ready.map(({ name }) => [name, name]), fields.spec);
  const detector = select("detector", [["", "As planned"], ["count", "Count of all tokens"], ["winmax", "Best window"],
    ["winmax-c", "All but the worst block"], ["evalue", "Evidence at its highest"]], fields.detector);
  const text = h("textarea", { id: "text", rows: 10, spellcheck: "false", "data-testid": "text",
    placeholder: "Paste a text, or drop a file here." });
  const prompt = h("textarea", { id: "prompt", rows: 2, "data-testid": "prompt" });
  const normalise = h("input", { id: "normalise", type: "checkbox", "data-testid": "normalise" });
  const file = h("input", { id: "file", type: "file", accept: ".txt,.md,text/plain", class: "visually-hidden", "data-testid": "file" });
  const result = h("div", { class: "result", "data-testid": "detection" });
  const trouble = h("div", {});
  const complain = (error) => { trouble.replaceChildren(problem(error)); trouble.scrollIntoView({ block: "nearest" }); };
  const live = h("p", { class: "visually-hidden", role: "status" });
  text.value = kept;

  const take = async (given) => {
    if (!given) return;
    if (given.size > MOST) { complain({ message: "this file is too large for the page; use `powermark detect`." }); return; }
    try { text.value = await given.text(); } catch { complain({ message: "this file cannot be read." }); return; }
    kept = text.value;
    fields.example = "";
    note();
    examine();
  };
  file.addEventListener("change", () => take(file.files[0]));
  for (const name of ["dragover", "dragleave", "drop"]) {
    text.addEventListener(name, (event) => {
      text.classList.toggle("over", name === "dragover");
      if (name === "dragleave") return;
      event.preventDefault();
      if (name === "drop") take(event.dataTransfer.files[0]);
    });
  }
  const note = () => remember({ spec: spec.value, detector: detector.value, example: fields.example ?? "" });
  text.addEventListener("input", () => { kept = text.value; fields.example = ""; note(); });
  for (const control of [spec, detector]) control.addEventListener("change", note);
  const examples = loaded.examples.map(({ name, text: content }) => h("button", { type: "button", "data-testid": `example-${name}`,
    onclick: () => { text.value = content; kept = content; fields.example = name; note(); examine(); } }, name));

  const inspects = loaded.scope === "inspect";
  const request = () => ({ spec: spec.value, text: text.value, normalise: normalise.checked, ...(inspects && detector.value ? { detector: detector.value } : {}),
    ...(prompt.value ? { prompt: prompt.value } : {}) });

  async function examine() {
    trouble.replaceChildren();
    if (!text.value.trim()) { result.replaceChildren(); complain({ message: "There is no text yet." }); return; }
    result.setAttribute("aria-busy", "true");
    try {
      const found = await ask("/v1/detect", { ...request(), tokens: inspects });
      result.replaceChildren(...(inspects ? inspected(found) : judged(found)));
      live.textContent = result.querySelector(".verdict").innerText;
      if (inspects) drawEvidence(found);
    } catch (error) {
      result.replaceChildren();
      complain(error);
    } finally {
      result.removeAttribute("aria-busy");
    }
  }

  async function saveReport() {
    try {
      save("report.html", await (await post("/v1/report", request())).blob(), "text/html");
    } catch (error) {
      complain(error);
    }
  }

  const card = (found, ...words) => {
    const [look, sign] = LOOKS[found.verdict];
    return h("div", { class: `verdict ${look}` }, h("span", { class: "sign", "aria-hidden": "true" }, sign),
      h("div", {}, h("h2", { "data-testid": "verdict" }, found.verdict), words));
  };

  function judged(found) {
    return [card(found, h("p", {}, `p is at most ${number(found.p, 1)}; alpha is ${number(found.alpha)}. A marked text of this length is found with probability ${found.power}.`)),
      h("p", { class: "help" }, "Your access token shows verdicts. Tokens and exact numbers need the scope inspect."), limits()];
  }

  const limits = (words = null) => h("section", {}, h("h3", {}, "What this does not show"), h("p", {}, words ??
    "It does not say who wrote the text: marked text can be quoted, edited or imitated, and a text without the mark may come from another model."));

  const holder = h("div", { class: "holder" });

  function inspected(found) {
    const [told, rest] = found.statement.split(TURN);
    const facts = [["p-value", `${number(found.p, 2)}`, `${found.bits.toFixed(1)} bits`],
      ["green", `${found.green} of ${found.scored}`, found.green_rate === null ? "" : percent(found.green_rate, 1)],
      ["expected", percent(found.gamma, 1), `with the mark ${percent(found.gamma_prime, 1)}`],
      ["tokens", String(found.tokens), `${found.repeated} repeats do not count`],
      ["power", percent(found.power), found.tokens_needed === null ? "at this length" : `80 % needs ${found.tokens_needed} tokens`]];
    const states = { green: 0, red: 0, out: 0 };
    for (const { state } of found.pieces) states[state === "green" || state === "red" ? state : "out"] += 1;
    return [
      card(found, h("p", {}, told.trim())),
      h("dl", { class: "figures five" }, facts.map(([label, value, remark]) => h("div", { class: "figure" },
        h("dt", {}, label), h("dd", {}, h("strong", { "data-testid": `fact-${label}` }, value), h("span", {}, remark))))),
      found.warnings.length ? h("ul", { class: "notes" }, found.warnings.map((warning) => h("li", {}, warning))) : null,
      h("section", { class: "card" }, h("h3", {}, "Tokens"), legend(),
        h("p", { class: "visually-hidden" }, `${states.green} green, ${states.red} red, ${states.out} do not count.`),
        tokenText(found.pieces, found.evidence)),
      h("figure", { class: "card" }, h("h3", {}, "Running evidence"), holder,
        h("figcaption", {}, "Natural logarithm of the evidence for the mark, token by token. At the dashed line it is enough, whenever one looks.")),
      limits(rest?.trim()),
      h("p", { class: "copies" },
        h("button", { type: "button", "data-testid": "save-html", onclick: saveReport }, "Save report (HTML)"),
        h("button", { type: "button", "data-testid": "save-json", onclick: () => save("detection.json", JSON.stringify(found, null, 2), "application/json") }, "Save numbers (JSON)")),
      h("p", { class: "signature" }, found.signature),
    ].filter(Boolean);
  }

  function drawEvidence(found) {
    const path = [0, ...found.evidence];
    const goal = -Math.log(found.alpha / found.looks);
    const step = Math.max(1, Math.floor(path.length / 400));
    draw(holder, {
      testid: "evidence", title: "Running evidence", height: 240,
      description: `After ${found.scored} counted tokens the evidence is ${path.at(-1).toFixed(1)} nats; ${goal.toFixed(1)} are enough.`,
      x: { label: "counted tokens", domain: [0, Math.max(1, path.length - 1)] },
      y: { label: "nats", domain: [Math.min(0, ...path), Math.max(goal * 1.2, ...path)] },
      layers: [{ kind: "horizontal", style: "goal", at: goal, label: `${goal.toFixed(1)} nats are enough`, testid: "goal" },
        { kind: "horizontal", style: "zero", at: 0 },
        { kind: "line", style: "main", points: path.map((v, i) => [i, v]).filter((_, i) => i % step === 0), testid: "evidence-line", hover: path.length < 400 }],
    });
  }

  const element = h("div", { class: "view detect" },
    h("section", { class: "panel", "aria-labelledby": "detect-title" },
      h("h1", { id: "detect-title" }, "Examine a text"),
      h("p", { class: "lead" }, "Is it marked under this spec's key? The text goes to this server and nowhere else."),
      h("form", { onsubmit: (event) => { event.preventDefault(); examine(); } },
        field("Spec", spec),
        examples.length ? h("div", { class: "field" }, h("span", { class: "like-label", id: "examples-label" }, "Examples"),
          h("div", { class: "chips", role: "group", "aria-labelledby": "examples-label" }, examples)) : null,
        field("Text", text),
        h("details", {}, h("summary", {}, "More"), inspects ? field("Test", detector, "Choose before you look: the plan promises no power for another test.") : null, field("Prompt", prompt, "What stood before the text, if you know it."),
          h("p", { class: "check" }, normalise, h("label", { for: "normalise" }, "Undo look-alike and invisible characters"))),
        h("p", { class: "copies" }, h("button", { class: "primary", "data-testid": "examine" }, "Examine"),
          h("label", { class: "button", for: "file" }, "Open a file"), file))),
    h("section", { class: "answer", "aria-label": "The verdict" }, live, trouble, result));
  result.append(h("div", { class: "empty" }, h("p", {}, "Paste a text, open a file or take an example. The verdict is one of three:"),
    h("dl", {}, Object.entries(LOOKS).map(([verdict, [look, sign]]) => [
      h("dt", { class: look }, h("span", { class: "sign", "aria-hidden": "true" }, sign)), h("dd", {}, h("b", {}, verdict), MEANINGS[verdict])]).flat())));

  return { element, enter: () => {
    const example = loaded.examples.find(({ name }) => name === fields.example);
    if (example) { text.value = example.text; kept = example.text; }
    if (example || kept) examine();
  } };
}
