// Small tools: elements, numbers in words, copying and saving. Text only ever becomes text nodes.

/** Make an element: attributes, listeners (onclick), and children that may be text. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value === "boolean") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A labelled control with help under it. */
export function field(label, control, help = null) {
  const id = control.id;
  const parts = [h("label", { for: id }, label), control];
  if (help) {
    parts.push(h("p", { class: "help", id: `${id}-help` }, help));
    control.setAttribute("aria-describedby", `${id}-help`);
  }
  return h("div", { class: "field" }, parts);
}

export function select(id, options, chosen) {
  return h("select", { id, "data-testid": id }, options.map(([value, label]) =>
    h("option", { value, selected: value === chosen }, label)));
}

/** A number for people: few digits, no exponent where a decimal reads well. */
export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e6) {
    const [digit, power] = value.toExponential(1).split("e");
    return `${digit} × 10${[...power].map((each) => RAISED[each]).join("")}`;
  }
  return String(Number(value.toPrecision(digits)));
}

const RAISED = { "-": "⁻", "+": "", ..."⁰¹²³⁴⁵⁶⁷⁸⁹" };

export const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)} %`;

/** A button that copies what `make` returns, and says so. */
export function copyButton(label, make, testid) {
  const said = h("span", { class: "quiet", role: "status" });
  const button = h("button", { type: "button", "data-testid": testid, onclick: async () => {
    try {
      const text = await make();
      await navigator.clipboard.writeText(text);
      said.textContent = "copied";
    } catch (error) {
      said.textContent = error.message || "could not copy";
    }
    setTimeout(() => { said.textContent = ""; }, 2500);
  } }, label);
  return h("span", { class: "copy" }, button, said);
}

/** Let the browser save a file. */
export function save(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Say what went wrong, in the server's own words. */
export function problem(error) {
  return h("div", { class: "problem", role: "alert", "data-testid": "problem" },
    h("p", {}, error.message), error.hint ? h("p", { class: "help" }, error.hint) : null);
}

/** Call a function once things have been quiet for a while. */
export function settle(run, wait = 250) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(run, wait); };
}
