// The server: AG-UI over server-sent events, and what it says when it refuses.

const HERE = new URL("../", document.baseURI);
const TOKEN = "interpose-chat-token";
const SILENT_MS = 45_000; // the server says every 15 s that it is there: what is silent for so long has gone

/** An answer that is no success. `problems` lists `[interrupt id, what is wrong]`. */
export class Refused extends Error {
  constructor(status, message, code, problems) {
    super(message);
    [this.status, this.code, this.problems] = [status, code, problems];
  }
}

export class Api {
  /** `askToken(wrong)` asks the person and gives a token, or null. */
  constructor(askToken) {
    this.askToken = askToken;
    this.token = kept();
    this.asking = null;
  }

  agents() {
    return this.json("ag-ui");
  }

  threads(agent) {
    return this.json(`${at(agent)}/threads?limit=50`);
  }

  /** What the server keeps of a thread: its messages, runs that go on, open questions. */
  thread(agent, id) {
    return this.json(`${at(agent)}/threads/${encodeURIComponent(id)}`);
  }

  /** Start a run; the answer is its stream. */
  run(agent, input, signal) {
    const body = JSON.stringify({ protocolVersion: "1.0", state: {}, tools: [], context: [], forwardedProps: {}, ...input });
    return this.request(at(agent), { method: "POST", body, signal, headers: { "content-type": "application/json", accept: "text/event-stream" } });
  }

  /** Read on in a run, from the event after the one with this id. */
  attach(agent, run, after, signal) {
    const headers = { accept: "text/event-stream", ...(after === null ? {} : { "last-event-id": String(after) }) };
    return this.request(`${at(agent)}/runs/${encodeURIComponent(run)}/events`, { signal, headers });
  }

  cancel(agent, run) {
    return this.request(`${at(agent)}/runs/${encodeURIComponent(run)}/cancel`, { method: "POST" });
  }

  async json(path) {
    return (await this.request(path)).json();
  }

  async request(path, options = {}) {
    for (;;) {
      const token = this.token;
      const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
      const response = await fetch(new URL(path, HERE), { ...options, headers, cache: "no-store", redirect: "error" });
      if (response.ok) return response;
      if (response.status !== 401 || !(await this.newToken(token))) throw await refusal(response);
    }
  }

  /** Ask for a token, once however many requests wait for one. */
  async newToken(used) {
    if (this.token !== used) return true;
    this.asking ??= this.askToken(Boolean(used)).finally(() => (this.asking = null));
    const token = await this.asking;
    if (!token) return false;
    this.token = token;
    try {
      sessionStorage.setItem(TOKEN, token);
    } catch {
      // storage may be forbidden; then it is asked for again
    }
    return true;
  }
}

function kept() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

function at(agent) {
  return `ag-ui/${encodeURIComponent(agent)}`;
}

async function refusal(response) {
  const text = await response.text().catch(() => "");
  let error = {};
  try {
    error = JSON.parse(text).error;
  } catch {
    // no JSON: a proxy, perhaps
  }
  const { code = null, message = text, problems = [] } = error !== null && typeof error === "object" ? error : { message: error };
  const listed = problems.map((one) => [one.interruptId, one.problem]);
  return new Refused(response.status, String(message || "").slice(0, 2000) || `The server answered ${response.status}.`, code, listed);
}

/** Yield `{ id, event }` from a stream of server-sent events, however it is cut into pieces. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let [rest, id, data] = ["", null, []];
  try {
    for (;;) {
      const silent = setTimeout(() => reader.cancel(), SILENT_MS); // then it reads like an end
      const { done, value } = await reader.read().finally(() => clearTimeout(silent));
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
        else if (line.startsWith("id:")) id = line.slice(3).trim();
        else if (!line && data.length) {
          const text = data.join("\n");
          data = [];
          yield { id, event: JSON.parse(text) };
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
