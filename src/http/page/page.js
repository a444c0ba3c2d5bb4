// The page: who is signed in, which view is open, and what the daemon says.
//
// The fleet's totals are always at hand; each view reads what else it needs. The stream of events
// only says that something changed: the numbers are read again, at most once a second, so what is
// shown is what the API answers. Without the stream the page asks every few seconds instead.

import { Trouble, follow, get, keepToken, signedIn } from "./api.js";
import { el, mark, say, show } from "./dom.js";
import { learnClock, tick } from "./format.js";
import { prepare } from "./dialogs.js";
import * as fleet from "./fleet.js";
import * as pool from "./pool.js";
import * as instances from "./instances.js";
import * as instance from "./instance.js";
import * as jobs from "./jobs.js";
import * as deaths from "./deaths.js";

const byId = (id) => document.getElementById(id);
const main = byId("content");

/** How long after a change the numbers are read again, and how often where no stream tells. */
const SOON = 300;
const APART = 1_000;
const ASKING = 5_000;

/** What every view may use. */
const app = {
  fleet: null,
  events: [],
  notice: (text) => say(byId("notice"), text),
  changed: () => refreshSoon(0),
};

let view = null;
let stop = null;
let up = false;
let reading = false;
let again = false;
let timer = 0;
let readAt = 0;
let failures = 0;

function route() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const names = path.split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const parameters = new URLSearchParams(query ?? "");
  const [first, second] = names;
  if (first === "pools" && second) return [pool, "Fleet", { name: second, parameters }];
  if (first === "instances") return [second ? instance : instances, "Instances", { name: second, parameters }];
  if (first === "jobs") return [jobs, "Jobs", { name: second, parameters }];
  if (first === "deaths") return [deaths, "Deaths", { name: second, parameters }];
  return [fleet, "Fleet", { parameters }];
}

/** Opens the view that the address names. */
function open(how) {
  if (location.hash === "#content") return;
  view?.close?.();
  const [module, tab, given] = route();
  for (const link of byId("views").children) mark(link, "aria-current", link.textContent === tab ? "page" : null);
  main.replaceChildren();
  view = module.open(main, given, app);
  document.title = `${view.title} · ${app.fleet?.name ?? "Ostler"}`;
  if (how === "walked") {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  refreshSoon(0);
}

function refreshSoon(after = SOON) {
  if (reading) {
    again = true;
    return;
  }
  const wait = Math.max(after, after ? APART - (Date.now() - readAt) : 0);
  if (timer && after) return;
  clearTimeout(timer);
  timer = setTimeout(refresh, wait);
}

async function refresh() {
  timer = 0;
  if (document.hidden && view && failures === 0) return;
  reading = true;
  again = false;
  const current = view;
  try {
    app.fleet = await get("/fleet");
    learnClock(app.fleet.now);
    if (view === null) start();
    else if (current === view) await current.read?.();
    readAt = Date.now();
    if (failures) app.notice("");
    failures = 0;
    requestAnimationFrame(draw);
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    failures += 1;
    if (error.status === 401) return signIn(signedIn() ? error.message : "");
    if (view === null) main.replaceChildren(el("p", { class: "empty" }, error.message));
    else if (current === view) app.notice(error.message);
    draw();
  } finally {
    reading = false;
    if (again) refreshSoon();
  }
}

function draw() {
  head();
  view?.draw();
}

function head() {
  const totals = app.fleet;
  if (!totals) return;
  say(byId("name"), totals.name);
  say(byId("about"), `Ostler ${totals.version} · ${totals.stage}`);
  lamp();
}

function lamp() {
  const state = failures ? "off" : up ? "live" : "asks";
  mark(byId("line"), "data-line", state);
  say(byId("line-word"), { live: "live", asks: "every 5 s", off: "no answer" }[state]);
}

/** Begins to show: the first answer was had. */
function start() {
  show(byId("views"), true);
  show(byId("line"), true);
  show(byId("leave"), signedIn());
  stop = follow({
    heard(kind, data) {
      if (kind === "event") app.events = [data, ...app.events].slice(0, 60);
      if (kind === "lagged") app.notice("Some events were skipped; the numbers are up to date.");
      refreshSoon();
    },
    line(state) {
      up = state;
      lamp();
      if (state) refreshSoon();
    },
    refused: (trouble) => (trouble.status === 401 ? signIn(trouble.message) : null),
  });
  open("first");
}

function end() {
  stop?.();
  stop = null;
  view?.close?.();
  view = null;
  app.fleet = null;
  app.events = [];
  up = false;
  for (const id of ["views", "line", "leave"]) show(byId(id), false);
}

/** Asks for a token. */
function signIn(why) {
  end();
  keepToken(null);
  app.notice("");
  document.title = "Sign in · Ostler";
  const token = el("input", { type: "password", id: "token", autocomplete: "current-password", required: true, "aria-describedby": "token-hint token-trouble", spellcheck: "false" });
  const trouble = el("p", { class: "trouble", id: "token-trouble", role: "alert" }, why);
  const form = el("form", { class: "card sign-in", "aria-labelledby": "sign-in-title", onsubmit: enter },
    el("h1", { id: "sign-in-title" }, "Sign in"),
    el("input", { type: "text", autocomplete: "username", value: "ostler", hidden: true, "aria-label": "Name" }),
    el("label", { for: "token" }, "Access token"),
    token,
    el("p", { class: "hint", id: "token-hint" }, "The secret of an ", el("code", {}, "[[http.token]]"), " in the daemon's configuration. It stays in this tab."),
    trouble,
    el("div", { class: "buttons" }, el("button", { type: "submit", class: "strong" }, "Sign in")));
  main.replaceChildren(form);
  token.focus();

  async function enter(event) {
    event.preventDefault();
    const text = token.value.trim();
    if (!text) return;
    if (!/^[\x21-\x7e]+$/.test(text)) return say(trouble, "A token contains no spaces or special characters.");
    keepToken(text);
    try {
      app.fleet = await get("/fleet");
    } catch (error) {
      keepToken(null);
      say(trouble, error.status === 401 ? "Unknown token." : error.message);
      token.select();
      return;
    }
    failures = 0;
    learnClock(app.fleet.now);
    start();
    app.notice("Signed in.");
  }
}

const THEMES = ["auto", "light", "dark"];

function theme(name) {
  const chosen = THEMES.includes(name) ? name : "auto";
  mark(document.documentElement, "data-theme", chosen === "auto" ? null : chosen);
  say(byId("theme"), `Theme: ${chosen}`);
  localStorage.setItem("ostler-theme", chosen);
}

theme(localStorage.getItem("ostler-theme"));
byId("theme").addEventListener("click", () => {
  const current = localStorage.getItem("ostler-theme");
  theme(THEMES[(THEMES.indexOf(current) + 1) % THEMES.length]);
});
byId("leave").addEventListener("click", () => signIn(""));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => view && open("walked"));
document.addEventListener("visibilitychange", () => document.hidden || refreshSoon(0));
setInterval(() => document.hidden || tick(), 1_000);
setInterval(() => (up && !failures) || (!view && !failures) || refreshSoon(), ASKING);
prepare();
refresh();
