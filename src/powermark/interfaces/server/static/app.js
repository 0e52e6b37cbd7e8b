// The page: which view is shown, and the state that the address holds.

import { get } from "./api.js";
import { h, problem } from "./dom.js";
import { designView } from "./design.js";
import { detectView } from "./detect.js";
import { generateView } from "./generate.js";
import { specsView } from "./specs.js";

const main = document.getElementById("main");
const VIEWS = { design: ["Design", designView], detect: ["Detect", detectView],
  generate: ["Generate", generateView], specs: ["Specs", specsView] };
let shown = null;

/** Return the view and the fields that the address names: #/design?n_tokens=100. */
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return [path in VIEWS ? path : "design", new URLSearchParams(query ?? "")];
}

/** Keep fields in the address without adding to the history. */
function remember(view, fields) {
  const query = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== "" && value !== null));
  history.replaceState(null, "", `#/${view}?${query}`);
}

function show(loaded) {
  const [name, query] = address();
  const known = Object.keys(VIEWS).filter((view) => view !== "generate" || (loaded.model && loaded.scope === "inspect"));
  const view = known.includes(name) ? name : "design";
  document.getElementById("views").replaceChildren(...known.map((each) =>
    h("a", { href: `#/${each}`, "aria-current": each === view ? "page" : null, "data-testid": `nav-${each}` }, VIEWS[each][0])));
  if (shown?.leave) shown.leave();
  document.title = `powermark: ${VIEWS[view][0]}`;
  shown = VIEWS[view][1](loaded, query, (fields) => remember(view, fields));
  main.replaceChildren(shown.element);
  shown.enter?.();
}

async function begin() {
  try {
    const loaded = await get("/v1/specs");
    document.getElementById("about").textContent = `powermark ${loaded.version}`;
    show(loaded);
    addEventListener("hashchange", (event) => {
      if (event.newURL.endsWith("#main")) return;  // the skip link; a field may have changed the address since
      show(loaded);
      main.focus({ preventScroll: true });
      scrollTo(0, 0);
    });
  } catch (error) {
    main.replaceChildren(problem(error));
  }
}

begin();
