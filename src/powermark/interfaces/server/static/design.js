// Design: what is asked on the left, the plan and where it lies on the right.

import { ask } from "./api.js";
import { draw } from "./chart.js";
import { copyButton, field, h, number, percent, problem, select, settle } from "./dom.js";

const GOALS = {
  kl: ["the least distortion", ["n_tokens", "alpha", "power"]],
  power: ["the most power", ["n_tokens", "alpha", "kl"]],
  n_tokens: ["the shortest text", ["alpha", "power", "kl"]],
  alpha: ["the strictest level", ["n_tokens", "power", "kl"]],
};
const START = { find: "kl", n_tokens: "100", alpha: "0.01", power: "0.95", kl: "0.08", edit_rate: "0.05",
  context_width: "2", profile: "", entropy: "" };
const EVEN = "plug-in";  // no profile: an even model
const LIKE = "like:";  // before the name of a reference profile
const QUANTITIES = {
  n_tokens: ["Length", "Tokens that the detector counts.", { min: 1, max: 100000, step: 1 }, [20, 2000, true]],
  alpha: ["Level", "Share of unmarked texts that may be called marked.", { min: 1e-12, max: 0.5, step: "any" }, [1e-6, 0.1, true]],
  power: ["Power", "Share of marked texts to be found.", { min: 0.01, max: 0.9999, step: "any" }, [0.5, 0.999, false]],
  kl: ["Distortion", "KL budget, nats per token.", { min: 0.0001, max: 5, step: "any" }, [0.005, 0.5, true]],
  edit_rate: ["Edits", "Share of tokens that readers rewrite.", { min: 0, max: 0.9, step: "any" }, [0, 0.3, false]],
};
const USUAL = [[0.25, 2], [0.5, 2]];

/** A slider and a number that follow each other; the slider runs on a log scale where that helps. */
function dial(name, value, changed) {
  const [label, help, limits, [low, high, log]] = QUANTITIES[name];
  const at = (v) => 1000 * (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
  const of = (p) => {
    const v = log ? low * (high / low) ** (p / 1000) : low + (high - low) * (p / 1000);
    return name === "n_tokens" ? Math.round(v) : Number(v.toPrecision(2 + (name === "power")));
  };
  const exact = h("input", { id: name, type: "number", inputmode: "decimal", required: true, ...limits, "data-testid": name });
  exact.value = value;
  const slider = h("input", { type: "range", min: 0, max: 1000, "aria-label": `${label}, coarse`, "data-testid": `${name}-slider` });
  slider.value = at(Number(value) || low);
  slider.addEventListener("input", () => { exact.value = of(Number(slider.value)); changed(); });
  exact.addEventListener("input", () => { slider.value = at(Number(exact.value) || low); changed(); });
  const row = field(label, exact, help);
  row.classList.add("dial");
  row.append(slider);
  return row;
}

/** KL of the plug-in, and the delta that spends a budget of it: the line through equal costs. */
const plugInKl = (g, d) => (d * g * Math.exp(d)) / (1 + Math.expm1(d) * g) - Math.log1p(Math.expm1(d) * g);

function deltaFor(g, kl) {
  let [low, high] = [0, 12];
  if (plugInKl(g, high) < kl) return null;
  for (let i = 0; i < 40; i += 1) {
    const middle = (low + high) / 2;
    if (plugInKl(g, middle) < kl) low = middle; else high = middle;
  }
  return low;
}

/** A reference's model and sampling, in words. */
const sampled = ({ reference, temperature, top_p }) =>
  `${reference.model}, T ${temperature}${top_p < 1 ? `, top-p ${top_p}` : ""}`;

export function designView(loaded, query, remember) {
  const fields = { ...START, ...Object.fromEntries(query) };
  if (!(fields.find in GOALS)) fields.find = "kl";
  const models = [...loaded.profiles.map(({ name, model }) => [name, `${name}${model ? ` (${model})` : ""}`]),
    [EVEN, "An even model (plug-in)"],
    ...loaded.references.map(({ name, ...about }) => [LIKE + name, `Like the reference ${name} (${sampled(about)})`])];
  if (!models.some(([name]) => name === fields.profile)) fields.profile = models[0][0];
  let running = new AbortController();

  const changed = () => { read(); showDials(); remember(fields); answer(); };
  const answer = settle(solve);
  const find = select("find", Object.entries(GOALS).map(([value, [label]]) => [value, label]), fields.find);
  const rows = Object.fromEntries(Object.keys(QUANTITIES).map((name) => [name, dial(name, fields[name], () => changed())]));
  const dials = h("div", {}, ...Object.values(rows));
  const width = h("input", { id: "context_width", type: "number", min: 0, max: 16, step: 1, "data-testid": "context_width" });
  width.value = fields.context_width;
  const profile = select("profile", models, fields.profile);
  const entropy = h("input", { id: "entropy", type: "number", min: 0.001, step: "any", "data-testid": "entropy" });
  entropy.value = fields.entropy;
  const sharpen = field("Mean entropy", entropy, "Of your model's next tokens, in nats, if you know it; the reference is sharpened to it.");
  find.addEventListener("change", changed);
  for (const control of [width, profile, entropy]) control.addEventListener("input", changed);

  function showDials() {  // dials are hidden and never replaced, so that a focused one keeps the focus
    const wanted = [...GOALS[fields.find][1], "edit_rate"];
    for (const [name, row] of Object.entries(rows)) row.hidden = !wanted.includes(name);
    sharpen.hidden = !profile.value.startsWith(LIKE);
  }

  function read() {
    for (const input of dials.querySelectorAll("input[type=number]")) fields[input.id] = input.value;
    Object.assign(fields, { find: find.value, context_width: width.value, profile: profile.value, entropy: entropy.value });
  }

  const recorded = () => fields.profile !== EVEN;
  const model = () => {
    if (!recorded()) return {};
    if (!fields.profile.startsWith(LIKE)) return { profile: fields.profile };
    return { like: fields.profile.slice(LIKE.length), ...(Number(fields.entropy) > 0 ? { entropy: Number(fields.entropy) } : {}) };
  };
  const shared = () => ({
    ...(Number(fields.edit_rate) > 0 ? { edit_rate: Number(fields.edit_rate) } : {}),
    context_width: Number(fields.context_width),
    ...model(),
  });
  const request = () => ({ ...Object.fromEntries(GOALS[fields.find][1].map((name) => [name, Number(fields[name])])), ...shared() });

  const result = h("div", { class: "result", "data-testid": "plan" });
  const live = h("p", { class: "visually-hidden", role: "status" });
  const holders = Object.fromEntries(["frontier", "length", "map"].map((name) => [name, h("div", { class: "holder" })]));
  const figure = (name, title, text) => h("figure", { class: "card" },
    h("h3", {}, title), holders[name], h("figcaption", {}, text));
  const charts = h("div", { class: "charts", hidden: true },
    figure("frontier", "Power against distortion", "The line is the best design for each power. Left of the dashed limit no watermark of any kind can go."),
    figure("length", "Power against length", "This design on shorter and longer texts. Steps are real: counts are whole numbers."),
    figure("map", "All pairs of gamma and delta", "In the shaded region the power asked for is reached. The dotted line spends the same distortion everywhere; the plan is where the two touch."));
  const element = h("div", { class: "view design" },
    h("section", { class: "panel", "aria-labelledby": "design-title" },
      h("h1", { id: "design-title" }, "Design a mark"),
      h("p", { class: "lead" }, "Say what you know. powermark finds the green share and the bias that cost the least."),
      h("form", { onsubmit: (event) => event.preventDefault() },
        field("Find", find), dials,
        h("details", { open: recorded() || fields.context_width !== START.context_width }, h("summary", {}, "Model and context"),
          field("Model", profile, "A profile makes a plan true for your model; a reference stands in until you have one."), sharpen,
          field("Context width", width, "Tokens before one that choose its green list.")))),
    h("section", { class: "answer", "aria-label": "The plan" }, live, result, charts));

  async function solve() {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    result.setAttribute("aria-busy", "true");
    try {
      const plan = await ask("/v1/plan", request(), signal);
      result.replaceChildren(...describe(plan));
      live.textContent = result.querySelector(".headline").textContent;
      charts.hidden = false;
      await Promise.all([drawLength(plan, signal), drawMap(plan, signal)]);
      await drawFrontier(plan, signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      result.replaceChildren(problem(error));
      charts.hidden = true;
    } finally {
      if (!signal.aborted) result.removeAttribute("aria-busy");
    }
  }

  function describe(plan) {
    const big = (label, value, remark, testid) => h("div", { class: "figure" },
      h("dt", {}, label), h("dd", {}, h("strong", { "data-testid": testid }, value), h("span", {}, remark)));
    const attacked = plan.attacked_power !== null;
    const cli = () => `powermark plan ${Object.entries(request()).map(([name, value]) =>
      `--${name.replaceAll("_", "-")} ${name === "profile" ? `${value}.npz` : value}`).join(" ")}`;
    const python = () => {
      const { profile: named, like: reference, entropy: nats, ...rest } = request();
      const given = Object.entries(rest).map(([name, value]) => `${name}=${value}`);
      const sharper = nats ? `, entropy=${nats}` : "";
      if (reference) return `from powermark import plan, reference_profile\n\nbest = plan(${given.join(", ")}, signal=reference_profile("${reference}"${sharper}))\n`;
      if (!named) return `from powermark import plan\n\nbest = plan(${given.join(", ")})\n`;
      return `from powermark import load_profile, plan\n\nbest = plan(${given.join(", ")}, signal=load_profile("${named}.npz"))\n`;
    };
    const of = loaded.profiles.find(({ name }) => name === request().profile);  // a spec of the same tokenizer, if there is one
    const like = loaded.specs.find(({ spec }) => !of || spec.tokenizer_digest === of.tokenizer_digest)?.name;
    const spec = async () => JSON.stringify(await ask("/v1/spec", { ...request(), ...(like ? { spec: like } : { vocab_size: of?.vocab_size ?? 50257 }) }), null, 2);
    return [
      h("p", { class: "headline" }, "Colour ", h("b", {}, percent(plan.gamma, 1)), " of the vocabulary green, add ",
        h("b", {}, number(plan.delta)), " to its logits, and call a text marked when at least ",
        h("b", {}, String(plan.critical_count)), ` of ${plan.n_tokens} counted tokens are green.`),
      h("dl", { class: "figures six" },
        big("gamma", number(plan.gamma, 4), "green share", "gamma"),
        big("delta", number(plan.delta, 4), "bias on green logits", "delta"),
        big("distortion", number(plan.kl, 3), "nats per token", "plan-kl"),
        big("power", percent(plan.power, 1), attacked ? `${percent(plan.attacked_power, 1)} after edits` : "on untouched text", "plan-power"),
        big("size", number(plan.size, 2), `exact; allowed ${number(plan.alpha, 3)}`, "plan-size"),
        big("efficiency", percent(plan.efficiency), "of the information limit", "plan-efficiency")),
      plan.warnings.length ? h("ul", { class: "notes" }, plan.warnings.map((note) => h("li", {}, note))) : null,
      h("p", { class: "copies" }, copyButton("Copy command", cli, "copy-cli"), copyButton("Copy Python", python, "copy-python"),
        copyButton(like ? `Copy spec, as for ${like}` : "Copy spec", spec, "copy-spec")),
      h("p", { class: "signature" }, plan.signature),
    ].filter(Boolean);
  }

  async function drawFrontier(plan, signal) {
    const { n_tokens, alpha } = plan;
    const at = ([gamma, delta]) => ask("/v1/power", { gamma, delta, n_tokens, alpha, ...shared() }, signal);
    const [curve, ...usual] = await Promise.all([
      ask("/v1/curve", { over: "power", points: recorded() ? 8 : 16, n_tokens, alpha, ...shared() }, signal), ...USUAL.map(at)]);
    const y = plan.attacked_power === null ? "power" : "attacked_power";
    const limit = curve.points.map((p) => [p.information_limit, p.power]);
    const kls = [...limit.map(([kl]) => kl), ...curve.points.map((p) => p.kl), ...usual.map((p) => p.kl), plan.kl];
    draw(holders.frontier, {
      testid: "frontier", title: "Power against distortion",
      description: `The plan spends ${number(plan.kl)} nats per token for power ${percent(plan[y], 1)}; the information limit for it is ${number(plan.information_limit)}.`,
      x: { label: "KL, nats per token", domain: [Math.min(...kls.filter((k) => k > 0)) * 0.8, Math.max(...kls) * 1.4], log: true },
      y: { label: y === "power" ? "power" : "power after edits", domain: [0, 1.03], format: (v) => percent(v) },
      layers: [
        { kind: "line", style: "limit", points: limit, hover: false, tag: "information limit" },
        { kind: "line", style: "main", points: curve.points.map((p) => [p.kl, p[y]]), label: "best design", testid: "frontier-line" },
        ...usual.map((p, i) => ({ kind: "point", style: "usual", at: [p.kl, p[y]], label: `γ ${p.gamma}, δ ${p.delta}`, testid: `usual-${i}`, under: 36 - 15 * i })),
        { kind: "point", style: "chosen", at: [plan.kl, plan[y]], label: "this plan", testid: "chosen-frontier" },
      ],
    });
  }

  async function drawLength(plan, signal) {
    const { gamma, delta, alpha, n_tokens } = plan;
    const curve = await ask("/v1/curve", { over: "n_tokens", from: Math.max(2, Math.round(n_tokens / 5)), to: Math.min(3 * n_tokens, 100000),
      points: 60, gamma, delta, alpha, ...shared() }, signal);
    const edited = plan.attacked_power !== null;
    const layers = [
      { kind: "horizontal", style: "faint", at: 0.8, label: "80 %" },
      { kind: "horizontal", style: "faint", at: 0.95, label: "95 %" },
      { kind: "vertical", style: "faint", at: n_tokens, label: `${n_tokens} tokens` },
      { kind: "line", style: "main", points: curve.points.map((p) => [p.n_tokens, p.power]), label: "untouched,", testid: "length-line" },
    ];
    if (edited) layers.push({ kind: "line", style: "second", points: curve.points.map((p) => [p.n_tokens, p.attacked_power]), label: "edited,", testid: "length-edited" });
    layers.push({ kind: "point", style: "chosen", at: [n_tokens, plan.power], label: edited ? "untouched" : "this plan", testid: "chosen-length" });
    if (edited) layers.push({ kind: "point", style: "usual", at: [n_tokens, plan.attacked_power], label: "edited", below: 18, side: "right", testid: "chosen-edited" });
    draw(holders.length, {
      testid: "length", title: "Power against length",
      description: `With ${n_tokens} counted tokens the power is ${percent(plan.power, 1)}.`,
      x: { label: "counted tokens", domain: [curve.points[0].n_tokens, curve.points.at(-1).n_tokens], log: true },
      y: { label: "power", domain: [0, 1.03], format: (v) => percent(v) }, layers,
    });
  }

  async function drawMap(plan, signal) {
    const { n_tokens, alpha, power, gamma_star } = plan;
    const asked = Math.min(fields.find === "power" ? power : Number(fields.power), 0.9999);
    const curve = await ask("/v1/curve", { over: "gamma", from: 0.03, to: Math.min(0.995, Math.max(0.97, plan.gamma)), points: recorded() ? 10 : 30,
      power: asked, n_tokens, alpha, ...shared() }, signal);
    const points = [...curve.points.map((p) => [p.gamma, p.delta]), [plan.gamma, plan.delta]].sort(([a], [b]) => a - b);
    const same = points.map(([g]) => [g, deltaFor(g, plan.kl)]).filter(([, d]) => d !== null);
    const top = Math.min(12, Math.max(4, plan.delta * 1.5));
    draw(holders.map, {
      testid: "map", title: "Pairs of gamma and delta",
      description: `The plan is at gamma ${number(plan.gamma)}, delta ${number(plan.delta)}; all pairs above the line reach power ${percent(asked, 1)}.`,
      x: { label: "gamma, green share", domain: [0, 1] }, y: { label: "delta, bias", domain: [0, top] },
      layers: [
        { kind: "line", style: "main", fill: "above", points, label: "least delta,", testid: "map-line" },
        ...(recorded() ? [] : [{ kind: "line", style: "same", points: same, hover: false, testid: "map-kl" }]),
        { kind: "vertical", style: "faint", at: gamma_star, label: "γ*" },
        ...USUAL.filter(([, delta]) => delta < top).map(([gamma, delta], i) => ({ kind: "point", style: "usual", at: [gamma, delta], label: `γ ${gamma}, δ ${delta}`, under: 20 + 15 * i, testid: `map-usual-${i}` })),
        { kind: "point", style: "chosen", at: [plan.gamma, plan.delta], label: "this plan", testid: "chosen-map" },
      ],
    });
  }

  showDials();
  return { element, enter: solve, leave: () => running.abort() };
}
