// The admin API: requests, actions and the stream of events.
//
// The token lives in this tab's session storage and travels in a header, never in an address; the
// stream is read with fetch because EventSource cannot send headers.

const KEY = "ostler-token";
const ANSWER_TIMEOUT = 20_000;
/** The daemon says something at least every 15 s; a line silent for so long is dead. */
const SILENCE = 45_000;

let token = sessionStorage.getItem(KEY);

/** Tells why a request failed. `status` is 0 when there was no answer. */
export class Trouble extends Error {
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status;
    this.title = title;
  }
}

/** Returns whether a token is held. */
export function signedIn() {
  return token !== null;
}

/** Keeps a token for this tab, or forgets it. */
export function keepToken(text) {
  token = text;
  if (text === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, text);
}

function headers(more) {
  return { Accept: "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}), ...more };
}

async function send(path, options) {
  let answer;
  try {
    answer = await fetch(`/api/v1${path}`, { cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "TimeoutError") throw new Trouble(0, "No answer", `The daemon did not answer in ${ANSWER_TIMEOUT / 1000} s.`);
    throw new Trouble(0, "Not reachable", "The daemon does not answer. Is it running?");
  }
  if (answer.ok) return answer;
  let problem = {};
  try {
    problem = await answer.json();
  } catch { /* An answer that is no problem document still has a status. */ }
  throw new Trouble(answer.status, problem.title ?? `Status ${answer.status}`, problem.detail ?? problem.title ?? `The daemon answered with status ${answer.status}.`);
}

/** Reads something. */
export async function get(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = given.length ? `?${new URLSearchParams(given)}` : "";
  return (await send(path + query, { headers: headers(), signal: AbortSignal.timeout(ANSWER_TIMEOUT) })).json();
}

/** Does something. */
export async function act(method, path, body) {
  const options = { method, headers: headers(), signal: AbortSignal.timeout(ANSWER_TIMEOUT) };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await send(path, options);
  const text = await answer.text();
  return text ? JSON.parse(text) : {};
}

/** Returns a path below the API from names that may hold anything. */
export function path(...names) {
  return `/${names.map(encodeURIComponent).join("/")}`;
}

/**
 * Follows the events until told to stop: calls `heard(kind, data)` for each, `line(up)` when the
 * connection comes and goes, and `refused(trouble)` when it makes no sense to try again.
 */
export function follow({ heard, line, refused }) {
  const stop = new AbortController();
  run();
  return () => stop.abort();

  async function run() {
    let last = null;
    let pause = 500;
    while (!stop.signal.aborted) {
      try {
        const more = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
        const answer = await send("/events", { headers: headers(more), signal: stop.signal });
        line(true);
        pause = 500;
        await read(answer.body, (message) => {
          if (message.id !== null) last = message.id;
          if (message.data) heard(message.event || "message", JSON.parse(message.data));
        });
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error.status === 401 || error.status === 403) return refused(error);
      }
      if (stop.signal.aborted) return;
      line(false);
      await new Promise((after) => setTimeout(after, pause + Math.random() * pause / 2));
      pause = Math.min(pause * 2, 15_000);
    }
  }
}

async function read(body, each) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let message = { id: null, event: "", data: "" };
  for (;;) {
    const dead = setTimeout(() => reader.cancel(), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(dead));
    if (done) return;
    rest += value;
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        each(message);
        message = { id: null, event: "", data: "" };
        continue;
      }
      const [, name, text] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (name === "data") message.data += (message.data ? "\n" : "") + text;
      else if (name === "event") message.event = text;
      else if (name === "id") message.id = text;
    }
  }
}
