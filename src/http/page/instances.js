// All instances, a window of them at a time: ten thousand rows are never in the page at once.

import { get } from "./api.js";
import { el, keep, mark, parts, say, show } from "./dom.js";
import { STATES, badge, place, setBadge, setSince, since } from "./format.js";

const WINDOW = 100;

/** Opens the view. */
export function open(main, { parameters }, app) {
  const filter = { text: parameters.get("q") ?? "", pool: parameters.get("pool") ?? "", state: parameters.get("state") ?? "", stuck: parameters.get("stuck") ?? "" };
  let rows = [];
  let next = null;
  let before = [];
  let cursor = null;
  let turn = 0;

  const text = el("input", { type: "search", id: "f-text", value: filter.text, placeholder: "name, host or job", autocomplete: "off", spellcheck: "false", oninput: typed });
  const pool = el("select", { id: "f-pool", onchange: chosen }, el("option", { value: "" }, "all pools"));
  const state = el("select", { id: "f-state", onchange: chosen }, el("option", { value: "" }, "all states"),
    STATES.filter((it) => it !== "deleted").map((it) => el("option", { value: it }, it)));
  state.value = filter.state;
  const stuck = el("input", { type: "checkbox", id: "f-stuck", onchange: chosen });
  stuck.checked = filter.stuck === "yes";
  const body = el("tbody");
  const told = el("p", { class: "dim", id: "told" });
  const empty = el("p", { class: "empty" });
  const back = el("button", { type: "button", onclick: () => turnTo(before.pop() ?? null, "back") }, "Previous");
  const on = el("button", { type: "button", onclick: () => turnTo(next, "on") }, "Next");
  const table = el("table", { class: "rows" },
    el("caption", { class: "sr" }, "Instances"),
    el("thead", {}, el("tr", {}, [["Name"], ["State"], ["For"], ["Pool", "w1"], ["Job", "w1"], ["Host", "w2"], ["Runner", "w3"]]
      .map(([word, wide]) => el("th", { scope: "col", class: wide }, word)))),
    body);
  main.append(
    el("h1", {}, "Instances"),
    el("form", { class: "filters", role: "search", "aria-label": "Filter instances", onsubmit: (event) => event.preventDefault() },
      el("p", {}, el("label", { for: "f-text" }, "Find"), text),
      el("p", {}, el("label", { for: "f-pool" }, "Pool"), pool),
      el("p", {}, el("label", { for: "f-state" }, "State"), state),
      el("p", { class: "check" }, stuck, el("label", { for: "f-stuck" }, "only stuck"))),
    told, table, empty, el("div", { class: "buttons pages" }, back, on));

  function typed() {
    filter.text = text.value.trim();
    clearTimeout(typed.timer);
    typed.timer = setTimeout(anew, 150);
  }
  function chosen() {
    Object.assign(filter, { pool: pool.value, state: state.value, stuck: stuck.checked ? "yes" : "" });
    anew();
  }
  function anew() {
    const kept = Object.entries({ q: filter.text, pool: filter.pool, state: filter.state, stuck: filter.stuck }).filter(([, value]) => value);
    history.replaceState(null, "", kept.length ? `#/instances?${new URLSearchParams(kept)}` : "#/instances");
    before = [];
    cursor = null;
    turn += 1;
    app.changed();
  }
  function turnTo(where, way) {
    if (way === "on") before.push(cursor);
    cursor = where;
    turn += 1;
    app.changed();
  }

  return {
    title: "Instances",
    async read() {
      const mine = turn;
      const asked = { q: filter.text, pool: filter.pool, state: filter.state, stuck: filter.stuck && "true" };
      const answer = await get("/instances", { ...asked, limit: WINDOW, cursor });
      if (mine !== turn) return;
      rows = answer.items;
      next = answer.next_cursor;
    },
    draw() {
      const names = app.fleet.pools.map((it) => it.name);
      keep(pool, ["", ...names], (name) => name, (name) => (name ? el("option", { value: name }, name) : pool.firstChild));
      if (document.activeElement !== pool && pool.value !== filter.pool) pool.value = filter.pool;
      keep(body, rows, (row) => row.name, makeRow, drawRow);
      show(table, rows.length > 0);
      show(empty, rows.length === 0);
      const any = filter.text || filter.pool || filter.state || filter.stuck;
      say(empty, any ? "No matching instances." : "No instances. They are created for queued jobs, or to keep a pool's min_idle.");
      const part = before.length > 0 || next !== null;
      say(told, any ? `${rows.length}${part ? " matching" : ""} shown, ${app.fleet.instances.total} in total` : `${rows.length} of ${app.fleet.instances.total} shown`);
      show(back, before.length > 0);
      show(on, next !== null);
    },
    close: () => clearTimeout(typed.timer),
  };
}

/** Makes a row; its parts are filled by `drawRow`. */
function makeRow(row) {
  const named = { state: badge(row.state), stuck: el("span", { class: "mark", "data-weight": "bad" }, "stuck"), since: since(row.since), pool: el("td", { class: "w1" }), job: el("td", { class: "w1" }), host: el("td", { class: "w2" }), runner: el("td", { class: "w3" }) };
  const node = el("tr", {},
    el("th", { scope: "row" }, el("a", { href: place("instances", row.name) }, row.name)),
    el("td", {}, named.state, " ", named.stuck), el("td", { class: "num" }, named.since),
    named.pool, named.job, named.host, named.runner);
  return parts(node, named);
}

function drawRow(node, row) {
  const part = node.parts;
  setBadge(part.state, row.state);
  show(part.stuck, Boolean(row.stuck));
  setSince(part.since, row.since);
  say(part.pool, row.pool);
  const job = row.job ?? row.offered_job;
  if (job && !part.job.firstChild?.href) part.job.replaceChildren(el("a", { href: place("jobs", job) }));
  if (job) {
    mark(part.job.firstChild, "href", place("jobs", job));
    say(part.job.firstChild, row.job ? String(job) : `${job} (offered)`);
  } else say(part.job, "");
  say(part.host, row.host ?? "");
  say(part.runner, row.runner?.name ?? "");
}
