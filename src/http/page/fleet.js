// The fleet at a glance: what needs a person, the numbers, the pools, the budget, the news.

import { el, keep, mark, parts, say, show, svg } from "./dom.js";
import { STATES, age, count_of, place, setSince, since, span } from "./format.js";
import { sparkline } from "./sparkline.js";
import { askPool } from "./dialogs.js";
import { act, path } from "./api.js";

const STARTING = ["pending_create", "creating", "starting"];
const TERMINATING = ["retiring", "ended", "pending_delete", "deleting"];

/** Opens the view. */
export function open(main, _given, app) {
  const needs = el("ul", { class: "needs" });
  const calm = el("p", { class: "calm" }, el("span", { class: "shape", "aria-hidden": "true" }), "No action needed");
  const tiles = el("dl", { class: "tiles" });
  const pools = el("ul", { class: "pools" });
  const noPools = el("p", { class: "empty" }, "No pools configured. Add a [[pool]] to the configuration; changes are applied automatically.");
  const budget = el("div", { class: "budgets" });
  const news = el("ol", { class: "news" });
  const noNews = el("p", { class: "empty" }, "No events since this page was opened.");
  main.append(
    el("h1", { class: "sr" }, "Fleet"),
    el("section", { "aria-label": "Needs attention" }, needs, calm),
    el("section", { "aria-label": "The fleet in numbers" }, tiles),
    el("section", { "aria-labelledby": "h-pools" }, el("h2", { id: "h-pools" }, "Pools"), pools, noPools),
    el("div", { class: "halves" },
      el("section", { "aria-labelledby": "h-news", class: "card" }, el("h2", { id: "h-news" }, "Recent events"), news, noNews),
      el("section", { "aria-labelledby": "h-budget", class: "card" }, el("h2", { id: "h-budget" }, "API rate limits"), budget)));
  return {
    title: "Fleet",
    draw() {
      const fleet = app.fleet;
      const list = concerns(fleet);
      show(calm, !list.length);
      keep(needs, list, (need) => need.key, makeNeed, (node, need) => {
        mark(node, "data-weight", need.weight);
        say(node.parts.text, need.text);
        mark(node.parts.link, "href", need.href);
        show(node.parts.link, Boolean(need.href));
      });
      keep(tiles, numbers(fleet), (tile) => tile.name, makeTile, (node, tile) => {
        say(node.parts.value, tile.value);
        say(node.parts.note, tile.note ?? "");
        mark(node, "data-weight", tile.weight);
      });
      show(noPools, !fleet.pools.length);
      keep(pools, fleet.pools, (pool) => pool.name, (pool) => makePool(app, pool), drawPool);
      drawBudget(budget, fleet.forges ?? []);
      show(noNews, !app.events.length);
      keep(news, app.events.slice(0, 30), (event) => `${event.id}-${event.count}`, makeEvent);
    },
  };
}

/** Returns what a person should look at, worst first. */
function concerns(fleet) {
  const found = [];
  const add = (weight, key, text, href) => found.push({ weight, key, text, href });
  if (fleet.violations) add("bad", "violations", `${count_of(fleet.violations, "invariant violation")}. This is a bug in Ostler: please report it with the log.`);
  if (fleet.leaks) add("bad", "leaks", `${count_of(fleet.leaks, "machine")} without an owner.`);
  if (fleet.config_problem) add("bad", "config", `The last configuration change was refused: ${fleet.config_problem}`);
  if (fleet.foreign_machines?.length) add("warn", "foreign", `${count_of(fleet.foreign_machines.length, "machine belongs", "machines belong")} to another daemon with the same id. See ostler adopt --foreign.`);
  for (const forge of fleet.forges ?? []) {
    for (const it of forge.ending_versions ?? []) add("warn", `version-${forge.name}-${it.version}`, `${forge.name}: ${it.sentence}.`);
    if (Math.abs(forge.clock_ahead_seconds ?? 0) >= 30) add("warn", `clock-${forge.name}`, `The clock of this host differs from ${forge.name}'s by ${Math.abs(forge.clock_ahead_seconds)} s. Check NTP.`);
  }
  for (const it of fleet.concerns ?? []) {
    add(it.kind === "credential" ? "bad" : "warn", `concern-${it.kind}-${it.subject}`, `${it.sentence} (${span(age(it.since))}). ${it.advice}`, it.kind === "pool" ? place("pools", it.subject) : undefined);
  }
  if (fleet.stuck) add("warn", "stuck", `${count_of(fleet.stuck, "instance is", "instances are")} stuck.`, "#/instances?stuck=yes");
  if (fleet.leader === false) add("note", "standby", "Standby: another daemon is the leader.");
  return found;
}

function makeNeed() {
  const text = el("span");
  const link = el("a", { href: "#/" }, "Show");
  return parts(el("li", {}, el("span", { class: "shape", "aria-hidden": "true" }), text, " ", link), { text, link });
}

function numbers(fleet) {
  const states = fleet.instances.states;
  const sum = (names) => names.reduce((total, name) => total + (states[name] ?? 0), 0);
  const jobs = fleet.jobs;
  const oldest = fleet.oldest_queued_at ? age(fleet.oldest_queued_at) : null;
  const waiting = (jobs.waiting ?? 0) + (jobs.queued ?? 0) + (jobs.offered ?? 0);
  return [
    { name: "Instances", value: String(fleet.instances.total), note: `in ${count_of(fleet.pools.length, "pool")}` },
    { name: "Busy", value: String(sum(["busy"])), note: states.reserved ? `${states.reserved} reserved` : "running a job" },
    { name: "Idle", value: String(sum(["idle"])), note: "ready for a job" },
    { name: "Starting", value: String(sum(STARTING)), note: "being created or booting" },
    { name: "Terminating", value: String(sum(TERMINATING)), note: "being removed" },
    { name: "Jobs running", value: String(jobs.running ?? 0) },
    { name: "Jobs waiting", value: String(waiting), note: oldest === null ? "queue empty" : `longest ${span(oldest)}`, weight: oldest > 300 ? "warn" : null },
  ];
}

function makeTile(tile) {
  const [value, note] = [el("dd", { class: "value" }), el("dd", { class: "note" })];
  return parts(el("div", { class: "tile" }, el("dt", {}, tile.name), value, note), { value, note });
}

function makePool(app, pool) {
  const named = {
    badges: el("span", { class: "marks" }),
    counts: el("p", { class: "counts" }),
    bar: svg("svg", { class: "stack", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img" }),
    numbers: el("p", { class: "numbers" }),
    spark: el("div", { class: "sparkbox" }),
    queue: el("p", { class: "queue" }),
    button: el("button", { type: "button", onclick: () => askPool(app, node.pool, act, path) }),
  };
  const node = el("li", { class: "card pool" },
    el("div", { class: "line-up" }, el("h3", {}, el("a", { href: place("pools", pool.name) }, pool.name)), named.badges, named.button),
    named.bar, named.counts, named.numbers,
    el("div", { class: "queue-time" }, named.spark, named.queue));
  return parts(node, named);
}

function drawPool(node, pool) {
  node.pool = pool;
  const part = node.parts;
  const marks = poolMarks(pool);
  keep(part.badges, marks, (it) => it.word, (it) => el("span", { class: "mark", "data-weight": it.weight }, it.word));
  drawStack(part.bar, pool);
  const living = STATES.filter((state) => pool.states[state] > 0 && state !== "deleted");
  keep(part.counts, living.length ? living : ["none"], (state) => state,
    (state) => (state === "none" ? el("span", { class: "dim" }, "no instances")
      : el("a", { class: "badge", "data-state": state, href: `#/instances?${new URLSearchParams({ pool: pool.name, state })}` },
        el("span", { class: "shape", "aria-hidden": "true" }), el("b"), ` ${state}`)),
    (chip, state) => state !== "none" && say(chip.querySelector("b"), String(pool.states[state])));
  say(part.numbers, `target ${pool.want} of ${pool.max} · demand ${pool.demand} · min idle ${pool.min_idle}`);
  say(part.queue, pool.oldest_queued_at ? `oldest job queued for ${span(age(pool.oldest_queued_at))}` : "queue empty");
  const shape = JSON.stringify(pool.queue_seconds ?? []);
  if (node.shape !== shape) {
    node.shape = shape;
    part.spark.replaceChildren(sparkline(pool.queue_seconds));
  }
  say(part.button, pool.draining ? "Resume" : "Drain");
  mark(part.button, "aria-label", `${pool.draining ? "Resume" : "Drain"} ${pool.name}`);
}

/** Returns what is special about a pool. */
export function poolMarks(pool) {
  return [
    pool.draining && { word: "draining", weight: "warn" },
    pool.breaker_since && { word: "breaker open", weight: "bad" },
    pool.failing && !pool.breaker_since && { word: "failing", weight: "warn" },
    pool.stuck && { word: `${pool.stuck} stuck`, weight: "bad" },
    pool.settled === false && { word: "settling", weight: "note" },
  ].filter(Boolean);
}

/** Draws how many are in which state, against the most there may be. */
export function drawStack(bar, pool) {
  const room = Math.max(pool.max, Object.values(pool.states).reduce((sum, count) => sum + count, 0), 1);
  const living = STATES.filter((state) => state !== "deleted" && pool.states[state] > 0);
  let from = 0;
  const pieces = living.map((state) => {
    const piece = { state, from, wide: (pool.states[state] / room) * 100 };
    from += piece.wide;
    return piece;
  });
  const told = living.map((state) => `${pool.states[state]} ${state}`).join(", ") || "no instances";
  mark(bar, "aria-label", `${told}, maximum ${pool.max}`);
  keep(bar, pieces, (piece) => piece.state, (piece) => svg("rect", { y: 0, height: 8, "data-state": piece.state }), (rect, piece) => {
    mark(rect, "x", piece.from.toFixed(2));
    mark(rect, "width", piece.wide.toFixed(2));
  });
}

function drawBudget(box, forges) {
  const rows = forges.flatMap((forge) => (forge.budgets ?? []).map((budget) => ({ ...budget, forge: forge.name })));
  if (!rows.length && !box.firstChild) box.append(el("p", { class: "empty" }, "No rate limits known yet."));
  if (rows.length && box.firstChild?.matches?.(".empty")) box.replaceChildren();
  if (!rows.length) return;
  keep(box, rows, (row) => `${row.forge}/${row.credential}/${row.resource}`, (row) => {
    const id = `budget-${row.forge}-${row.credential}-${row.resource}`.replaceAll(/[^\w-]/g, "_");
    const [meter, told] = [el("meter", { min: "0", "aria-labelledby": id }), el("span", { class: "told" })];
    return parts(el("div", { class: "budget" }, el("span", { id }, `${row.forge} · ${row.credential} · ${row.resource}`), meter, told), { meter, told });
  }, (node, row) => {
    const { meter, told } = node.parts;
    mark(meter, "max", row.limit || 1);
    mark(meter, "low", (row.limit || 1) * 0.15);
    mark(meter, "high", (row.limit || 1) * 0.4);
    mark(meter, "optimum", row.limit || 1);
    mark(meter, "value", row.remaining);
    const left = row.resets_at ? -age(row.resets_at) : null;
    say(told, `${row.remaining.toLocaleString("en")} of ${row.limit.toLocaleString("en")} left${left > 0 ? `, resets in ${span(left)}` : ""}`);
  });
}

/** Makes one line of news. */
export function makeEvent(event) {
  const { kind, name } = event.subject;
  const at = since(event.last_at ?? event.at, "clock");
  setSince(at, event.last_at ?? event.at);
  const link = kind === "instance" ? place("instances", name) : kind === "job" ? place("jobs", name) : place("pools", name);
  return el("li", {}, at, el("span", {}, el("a", { href: link }, kind === "job" ? `job ${name}` : name), " ", el("span", { class: "text" }, event.text), event.count > 1 ? el("span", { class: "dim" }, ` ×${event.count}`) : null));
}
