// Jobs: who waits and why, what runs where; and one job in detail.

import { get, path } from "./api.js";
import { el, keep, mark, parts, say, show } from "./dom.js";
import { badge, place, setBadge, setSince, since, words } from "./format.js";

const GROUPS = { open: ["waiting", "queued", "offered"], running: ["running"], over: ["completed", "closed"] };
const WINDOW = 100;

/** Opens the view: a list, or one job. */
export function open(main, { name, parameters }, app) {
  return name ? openOne(main, name, app) : openList(main, parameters, app);
}

function openList(main, parameters, app) {
  const group = GROUPS[parameters.get("show")] ? parameters.get("show") : "open";
  let [rows, more] = [[], false];
  const body = el("tbody");
  const table = el("table", { class: "rows jobs" }, el("caption", { class: "sr" }, "Jobs"),
    el("thead", {}, el("tr", {}, [["Job"], ["State"], ["For"], [group === "open" ? "Reason" : "Where", group === "open" ? "" : "w1"], ["Labels", "w2"]]
      .map(([word, wide]) => el("th", { scope: "col", class: wide }, word)))), body);
  const empty = el("p", { class: "empty" });
  const told = el("p", { class: "dim" });
  const link = (key, word) => el("a", { href: key === "open" ? "#/jobs" : `#/jobs?show=${key}`, "aria-current": key === group ? "true" : null }, word);
  main.append(el("h1", {}, "Jobs"),
    el("nav", { class: "choices", "aria-label": "Which jobs" }, link("open", "Queued"), link("running", "Running"), link("over", "Finished")),
    told, table, empty);
  return {
    title: "Jobs",
    async read() {
      const answers = await Promise.all(GROUPS[group].map((state) => get("/jobs", { state, limit: WINDOW })));
      rows = answers.flatMap((answer) => answer.items);
      const key = group === "over" ? "over_at" : "queued_at";
      const sign = group === "over" ? -1 : 1;
      rows.sort((a, b) => sign * String(a[key] ?? "").localeCompare(String(b[key] ?? "")));
      more = answers.some((answer) => answer.next_cursor !== null) || rows.length > 2 * WINDOW;
      rows = rows.slice(0, 2 * WINDOW);
    },
    draw() {
      keep(body, rows, (row) => row.id, (row) => makeRow(row, group), drawRow);
      show(table, rows.length > 0);
      show(empty, rows.length === 0);
      say(empty, { open: "No jobs queued.", running: "No jobs running.", over: "No finished jobs." }[group]);
      say(told, rows.length ? `${rows.length}${more ? " or more" : ""}, ${group === "over" ? "latest" : "oldest"} first` : "");
    },
  };
}

function makeRow(row, group) {
  const named = { group, state: badge(row.state), since: since(row.queued_at), where: el("td", { class: group === "open" ? "why" : "w1" }), labels: el("td", { class: "w2" }) };
  const node = el("tr", {},
    el("th", { scope: "row" }, el("a", { href: place("jobs", row.id) }, row.name || `job ${row.id}`), el("span", { class: "under" }, row.repository ?? "")),
    el("td", {}, named.state), el("td", { class: "num" }, named.since), named.where, named.labels);
  return parts(node, named);
}

function drawRow(node, row) {
  const part = node.parts;
  setBadge(part.state, row.state);
  setSince(part.since, part.group === "over" ? row.over_at : row.started_at ?? row.queued_at);
  if (part.group === "open") say(part.where, row.why ?? (row.offered_to ? `Offered to ${row.offered_to}.` : ""));
  else {
    const instance = row.instance ?? "";
    if (part.where.textContent !== instance || !part.where.firstChild) {
      part.where.replaceChildren(instance ? el("a", { href: place("instances", instance) }, instance) : "");
    }
    if (row.conclusion && !part.said) {
      part.said = true;
      part.state.after(el("span", { class: "mark", "data-weight": row.conclusion === "success" ? "good" : "note" }, words(row.conclusion)));
    }
  }
  say(part.labels, (row.labels ?? []).join(", "));
}

function openOne(main, id, app) {
  let [job, lines, missing] = [null, [], ""];
  const title = el("h1", {}, `Job ${id}`);
  const state = badge("queued");
  const why = el("ul", { class: "sentences" });
  const facts = el("dl", { class: "facts" });
  const body = el("div", { class: "halves", hidden: true },
    el("section", { class: "card", "aria-labelledby": "h-why" }, el("h2", { id: "h-why" }, "Explanation"), why),
    el("section", { class: "card", "aria-labelledby": "h-facts" }, el("h2", { id: "h-facts" }, "Facts"), facts));
  const none = el("p", { class: "empty" }, "Loading…");
  main.append(el("p", { class: "trail" }, el("a", { href: "#/jobs" }, "Jobs"), " / job"), el("div", { class: "line-up" }, title, state), body, none);
  return {
    title: `Job ${id}`,
    async read() {
      try {
        const [found, told] = await Promise.all([get(path("jobs", id)), get(path("jobs", id, "explain"))]);
        [job, lines, missing] = [found, told.lines, ""];
      } catch (error) {
        if (error.status !== 404) throw error;
        missing = `Job ${id} not found`;
      }
    },
    draw() {
      show(body, Boolean(job));
      show(none, !job);
      show(state, Boolean(job));
      if (!job) return say(none, missing || "Loading…");
      say(title, job.name || `Job ${id}`);
      setBadge(state, job.state);
      keep(why, lines.map((line, at) => ({ line, at })), (row) => `${row.at}${row.line}`, (row) => el("li", {}, row.line));
      keep(facts, factsOf(job), (fact) => fact[0], ([word]) => el("div", {}, el("dt", {}, word), el("dd")), (node, [, value]) => {
        const text = value instanceof Node ? value.textContent : value;
        if (node.lastChild.textContent !== text) node.lastChild.replaceChildren(value);
      });
      mark(body, "data-state", job.state);
    },
  };
}

function factsOf(job) {
  const instance = job.instance ?? job.offered_to;
  // Only an address of the web is a link; anything else a forge might say is text.
  const web = /^https?:\/\//.test(job.url ?? "");
  return [
    ["Id", String(job.id)],
    ["Repository", job.repository ?? "unknown"],
    ...(web ? [["At the forge", el("a", { href: job.url, rel: "noreferrer noopener", target: "_blank" }, job.url)]] : []),
    ["Labels", (job.labels ?? []).join(", ") || "none"],
    ["Pool", job.pool ? el("a", { href: place("pools", job.pool) }, job.pool) : "none"],
    ...(instance ? [[job.instance ? "Runs on" : "Offered to", el("a", { href: place("instances", instance) }, instance)]] : []),
    ["Forge says", `${words(job.fact)}${job.conclusion ? `, ${words(job.conclusion)}` : ""}`],
    ["Queued", job.queued_at ? el("span", {}, since(job.queued_at, "ago")) : "unknown"],
    ...(job.started_at ? [["Started", el("span", {}, since(job.started_at, "ago"))]] : []),
    ...(job.over_at ? [["Finished", el("span", {}, since(job.over_at, "ago"))]] : []),
  ];
}
