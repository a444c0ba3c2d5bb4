// Deaths grouped by cause: the most frequent first, each with its advice and its dead.

import { get } from "./api.js";
import { el, keep, mark, parts, say, show } from "./dom.js";
import { now, place, setSince, since, words } from "./format.js";

const SPANS = { "1h": 3_600, "24h": 86_400, "7d": 604_800, all: 0 };
const PAGE = 200;
const MOST = 1_000;
/** Ends that need no action. */
const NORMAL = ["clean", "removed"];

/** Opens the view. */
export function open(main, { parameters }, app) {
  const kept = parameters.get("since");
  let within = kept in SPANS ? kept : "24h";
  let [rows, more, turn, seen] = [[], false, 0, ""];
  const choice = el("select", { id: "f-since", onchange: anew }, Object.entries({ "1h": "last hour", "24h": "last day", "7d": "last week", all: "all" }).map(([key, word]) => el("option", { value: key }, word)));
  choice.value = within;
  const pool = el("select", { id: "f-pool", onchange: anew }, el("option", { value: "" }, "all pools"));
  const normal = el("input", { type: "checkbox", id: "f-normal", onchange: () => app.changed() });
  const groups = el("ul", { class: "groups" });
  const empty = el("p", { class: "empty" });
  const told = el("p", { class: "dim" });
  main.append(el("h1", {}, "Deaths"),
    el("form", { class: "filters", "aria-label": "Filter deaths", onsubmit: (event) => event.preventDefault() },
      el("p", {}, el("label", { for: "f-since" }, "When"), choice),
      el("p", {}, el("label", { for: "f-pool" }, "Pool"), pool),
      el("p", { class: "check" }, normal, el("label", { for: "f-normal" }, "include normal ends"))),
    told, groups, empty);

  function anew() {
    within = choice.value;
    turn += 1;
    seen = "";
    app.changed();
  }

  return {
    title: "Deaths",
    async read() {
      const mine = turn;
      const from = SPANS[within] ? new Date(now() - SPANS[within] * 1000).toISOString() : undefined;
      const found = [];
      let cursor = null;
      do {
        const answer = await get("/deaths", { since: from, pool: pool.value, limit: PAGE, cursor });
        if (mine !== turn) return;
        found.push(...answer.items);
        cursor = answer.next_cursor;
        // What was read before has not changed: only the newest page is looked at again.
        if (rows.length && found.length && seen && answer.items.some((death) => death.instance === seen)) {
          const known = new Set(found.map((death) => death.instance));
          found.push(...rows.filter((death) => !known.has(death.instance)));
          cursor = null;
        }
      } while (cursor !== null && found.length < MOST);
      more = cursor !== null || (more && found.length >= MOST);
      rows = found.slice(0, MOST);
      seen = rows[0]?.instance ?? "";
    },
    draw() {
      keep(pool, ["", ...app.fleet.pools.map((it) => it.name)], (name) => name, (name) => (name ? el("option", { value: name }, name) : pool.firstChild));
      const all = normal.checked ? rows : rows.filter((death) => !NORMAL.includes(death.verdict));
      const causes = new Map();
      for (const death of all) causes.set(death.verdict, [...(causes.get(death.verdict) ?? []), death]);
      const sorted = [...causes].sort((a, b) => b[1].length - a[1].length || a[0].localeCompare(b[0]));
      const top = sorted[0]?.[1].length ?? 1;
      keep(groups, sorted, ([verdict]) => verdict, makeGroup, (node, [, dead]) => {
        say(node.parts.count, String(dead.length));
        mark(node.parts.meter, "max", top);
        mark(node.parts.meter, "value", dead.length);
        say(node.parts.advice, dead[0].advice ?? "");
        say(node.parts.fault, `fault: ${words(dead[0].fault)}`);
        keep(node.parts.dead, dead.slice(0, 50), (death) => death.instance, makeDead);
        say(node.parts.rest, dead.length > 50 ? `and ${dead.length - 50} more` : "");
      });
      show(empty, !sorted.length);
      say(empty, rows.length ? "All ends were normal." : "No deaths in this period.");
      const normals = rows.length - rows.filter((death) => !NORMAL.includes(death.verdict)).length;
      say(told, rows.length ? `${rows.length}${more ? " or more" : ""} ends, ${normals} of them normal` : "");
    },
  };
}

function makeGroup([verdict]) {
  const named = { count: el("b", { class: "count" }), meter: el("progress", { "aria-hidden": "true", max: "1" }), advice: el("p", { class: "advice" }), fault: el("span", { class: "dim" }), dead: el("ol", { class: "dead" }), rest: el("p", { class: "dim" }) };
  const node = el("li", { class: "card" }, el("details", {},
    el("summary", {}, named.count, " ", el("span", { class: "verdict-word", "data-verdict": verdict }, verdict), " ", named.fault, named.meter),
    named.dead, named.rest), named.advice);
  return parts(node, named);
}

function makeDead(death) {
  const at = since(death.ended_at, "ago");
  setSince(at, death.ended_at);
  const how = [death.exit_code !== null && death.exit_code !== undefined && `exit ${death.exit_code}`, death.signal && `signal ${death.signal}`, death.reason, death.provisional_until && "provisional"].filter(Boolean).join(", ");
  return el("li", {}, el("a", { href: place("instances", death.instance) }, death.instance), " ", el("span", {}, how), death.job ? el("span", {}, " job ", el("a", { href: place("jobs", death.job) }, String(death.job))) : null, " ", at);
}
