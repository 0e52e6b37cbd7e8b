// The one way to the server. A token, where one is needed, stays in this tab's session.

export class Problem extends Error {
  constructor(status, { code, message, hint }) {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

const headers = () => {
  const token = sessionStorage.getItem("token");
  return token ? { Authorization: `Bearer ${token}` } : {};
};

async function refused(response) {
  let error = { code: "unknown", message: `the server answered ${response.status}.` };
  try { error = (await response.json()).error ?? error; } catch { /* no JSON: keep the status */ }
  return new Problem(response.status, error);
}

const PATIENCE = 12; // times that a busy server is asked again

/** Wait as long as a busy server asks for; an abort ends the wait. */
const waited = (response, signal) => new Promise((done) => {
  const timer = setTimeout(done, 1000 * (Number(response.headers.get("Retry-After")) || 1));
  signal?.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

async function fetched(path, options) {
  let response, asked = 0;
  for (;;) {
    try {
      response = await fetch(path, { ...options, headers: { ...options.headers, ...headers() } });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem(0, { code: "offline", message: "the server does not answer." });
    }
    if (response.status === 429 && asked++ < PATIENCE) {
      await waited(response, options.signal);
      continue; // fetch itself refuses once aborted
    }
    if (response.status !== 401) break;
    await askForToken(sessionStorage.getItem("token") ? "That token is not known here." : "");
  }
  if (!response.ok) throw await refused(response);
  return response;
}

export const get = async (path) => (await fetched(path, {})).json();

export const post = (path, body, signal) => fetched(path, {
  method: "POST", body: JSON.stringify(body), signal, headers: { "Content-Type": "application/json" },
});

export const ask = async (path, body, signal) => (await post(path, body, signal)).json();

/** Yield the JSON lines of an answer as they come. */
export async function* lines(path, body, signal) {
  const reader = (await post(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (waiting + value).split("\n");
    waiting = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

let asking = null;

function askForToken(complaint) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("ask-token");
    const input = document.getElementById("token");
    document.getElementById("token-problem").textContent = complaint;
    input.value = "";
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", input.value.trim());
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}
