// Specs: what is loaded, what each promised and what was measured of it.

import { h, number, percent } from "./dom.js";

const CALLED = { gamma_prime: "green rate", kl: "KL, nats per token that counts", power: "power", size: "size (false positives)", attacked_power: "power after edits",
  coverage: "coverage: share of answers found", attacked_coverage: "coverage after edits" };
const VERDICTS = new Map([[true, "kept"], [false, "broken"], [null, "unknown"]]);

function checked({ name, promised, measured, holds, texts_needed }) {
  const verdict = VERDICTS.get(holds);
  const words = texts_needed ? `not enough texts: ${texts_needed.toLocaleString("en")} needed` : verdict;
  const seen = Number.isFinite(measured.value);
  return h("tr", {}, h("th", { scope: "row" }, CALLED[name] ?? name), h("td", {}, number(promised, 4)),
    h("td", {}, seen ? [number(measured.value, 4), h("span", {}, `${number(Math.max(0, measured.low), 3)} to ${number(measured.high, 3)}`)] : "–"),
    h("td", { class: verdict }, words));
}

function promiseOf(plan) {
  const cost = `${number(plan.kl, 3)} nats per token.`;
  const after = (share) => (share == null ? "" : `, ${percent(share, 1)} after edits`);
  if (plan.asked?.coverage != null)
    return `Planned to find ${percent(plan.coverage, 1)} of all answers at level ${number(plan.alpha)}${after(plan.attacked_coverage)}, ${cost}`;
  return `Planned for ${plan.n_tokens} counted tokens at level ${number(plan.alpha)}: power ${percent(plan.power, 1)}${after(plan.attacked_power)}, ${cost}`;
}

function aboutOf({ about }) {
  const told = about ? Object.entries(about).filter(([name]) => name !== "spec" && name !== "key") : [];
  return told.length ? h("p", { class: "help" }, told.map(([name, value]) => `${name}: ${value}`).join(" · ")) : null;
}

function card({ name, detects, spec, verification }) {
  const plan = spec.design;
  const facts = [["gamma", number(spec.gamma, 4)], ["delta", number(spec.delta, 4)], ["context width", String(spec.context_width)],
    ["vocabulary", spec.vocab_size.toLocaleString("en")], ["scheme", spec.scheme], ["reads", detects]];
  const promise = plan ? promiseOf(plan) : "Chosen by hand, without a plan.";
  return h("article", { class: "card", "data-testid": `spec-${name}` },
    h("h2", {}, name), h("p", {}, promise),
    h("dl", { class: "figures six" }, facts.map(([label, value]) => h("div", { class: "figure" }, h("dt", {}, label), h("dd", {}, h("strong", {}, value))))),
    verification ? h("div", { class: "wide" }, h("table", {}, h("caption", {}, `Promised and measured, on ${verification.texts} texts with the mark and as many without`),
      h("thead", {}, h("tr", {}, ["what", "promised", "measured", "promise"].map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, verification.checks.map(checked))), (verification.notes ?? []).map((note) => h("p", { class: "help" }, note.replace(/^note: /, ""))), aboutOf(verification)) : h("p", { class: "help" }, "Not verified yet: ",
      h("code", {}, `powermark verify --spec ${name}.json --key ${name}.key --result ${name}.verify.json`)),
    h("p", { class: "copies" }, detects === "texts" ? h("a", { class: "button", href: `#/detect?spec=${encodeURIComponent(name)}` }, "Examine a text") : null),
    h("p", { class: "signature" }, `digest ${spec.digest}${spec.key_fingerprint ? ` · key ${spec.key_fingerprint}` : ""}`));
}

export function specsView(loaded) {
  return { element: h("div", { class: "view specs" }, h("h1", {}, "Loaded specs"),
    h("p", { class: "lead" }, "A spec says how a mark is made. Its key stays on the server."),
    loaded.specs.length ? loaded.specs.map(card) : h("p", {}, "None. Start the server with a folder: ", h("code", {}, "powermark serve out")),
    loaded.profiles.length ? h("section", {}, h("h2", {}, "Profiles"), h("ul", { class: "plain" }, loaded.profiles.map((each) =>
      h("li", {}, h("a", { href: `#/design?profile=${encodeURIComponent(each.name)}` }, each.name),
        ` ${each.model ?? ""}, ${each.texts ?? "?"} texts of ${each.n_tokens ?? "?"} tokens at temperature ${each.temperature ?? "?"}`)))) : null) };
}
