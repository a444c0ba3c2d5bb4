// One pool: what it wants, what it has, and why.

import { act, get, path } from "./api.js";
import { el, keep, mark, say } from "./dom.js";
import { count_of, place, span, age, words } from "./format.js";
import { drawStack, poolMarks } from "./fleet.js";
import { sparkline } from "./sparkline.js";
import { askPool } from "./dialogs.js";
import { svg } from "./dom.js";

/** Opens the view. */
export function open(main, { name }, app) {
  let pool = null;
  let lines = [];
  let missing = "";
  const badges = el("span", { class: "marks" });
  const button = el("button", { type: "button", onclick: () => pool && askPool(app, pool, act, path) });
  const bar = svg("svg", { class: "stack", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img" });
  const facts = el("dl", { class: "facts" });
  const why = el("ul", { class: "sentences" });
  const spark = el("div", { class: "sparkbox big" });
  const body = el("div", { hidden: true }, bar,
    el("div", { class: "halves" },
      el("section", { class: "card", "aria-labelledby": "h-why" }, el("h2", { id: "h-why" }, "Explanation"), why),
      el("section", { class: "card", "aria-labelledby": "h-facts" }, el("h2", { id: "h-facts" }, "Facts"), facts)),
    el("section", { class: "card", "aria-labelledby": "h-queue" }, el("h2", { id: "h-queue" }, "Queue time, last hour"), spark));
  const none = el("p", { class: "empty" }, "Loading…");
  main.append(
    el("p", { class: "trail" }, el("a", { href: "#/" }, "Fleet"), " / pool"),
    el("div", { class: "line-up" }, el("h1", {}, name), badges, button), body, none);
  return {
    title: name,
    async read() {
      try {
        pool = await get(path("pools", name));
        lines = pool.explain ?? (await get(path("pools", name, "explain"))).lines;
        missing = "";
      } catch (error) {
        if (error.status !== 404) throw error;
        missing = `Pool ${name} not found`;
      }
    },
    draw() {
      body.hidden = !pool;
      none.hidden = Boolean(pool);
      button.hidden = !pool;
      if (!pool) return say(none, missing || "Loading…");
      keep(badges, poolMarks(pool), (it) => it.word, (it) => el("span", { class: "mark", "data-weight": it.weight }, it.word));
      say(button, pool.draining ? "Resume" : "Drain");
      mark(button, "aria-label", `${pool.draining ? "Resume" : "Drain"} ${pool.name}`);
      drawStack(bar, pool);
      keep(why, lines.map((line, at) => ({ line, at })), (it) => `${it.at}${it.line}`, (it) => el("li", {}, it.line));
      keep(facts, factsOf(pool), (fact) => fact[0], ([word]) => el("div", {}, el("dt", {}, word), el("dd")), (node, [, value]) => {
        const dd = node.lastChild;
        if (value instanceof Node) {
          if (dd.textContent !== value.textContent) dd.replaceChildren(value);
        } else say(dd, value);
      });
      const shape = JSON.stringify(pool.queue_seconds ?? []);
      if (spark.shape !== shape) {
        spark.shape = shape;
        spark.replaceChildren(sparkline(pool.queue_seconds, { width: 600, height: 90 }));
        const known = (pool.queue_seconds ?? []).filter((point) => point.max !== null && point.max !== undefined);
        const worst = known.length ? Math.max(...known.map((point) => point.max)) : null;
        spark.append(el("p", { class: "dim" }, known.length ? `Line: median. Area: maximum. Highest: ${span(worst)}.` : "No job started in the last hour."));
      }
    },
  };
}

function factsOf(pool) {
  const total = Object.values(pool.states).reduce((sum, count) => sum + count, 0);
  return [
    ["Instances", el("a", { href: `#/instances?${new URLSearchParams({ pool: pool.name })}` }, `${total} (maximum ${pool.max})`)],
    ["Target", `${pool.want} (demand ${pool.demand}, min idle ${pool.min_idle})`],
    ["Labels", (pool.labels ?? []).join(", ") || "none"],
    ["Scope", `${pool.scope} at ${pool.forge}`],
    ["Provider", `${pool.provider}, ${words(pool.binding)} binding`],
    ...(pool.image ? [["Image", pool.image]] : []),
    ["Oldest queued job", pool.oldest_queued_at ? span(age(pool.oldest_queued_at)) : "queue empty"],
    ...(pool.breaker_since ? [["Breaker", `open for ${span(age(pool.breaker_since))}`]] : []),
    ...(pool.failing ? [["Last failure", `${pool.failing.instance}, ${span(age(pool.failing.at))} ago, fault of the ${pool.failing.class} (stage ${pool.failing.stage}): ${pool.failing.error}. ${pool.failing.advice}`]] : []),
    ...(pool.avoided_hosts?.length ? [["Avoided hosts", pool.avoided_hosts.map((it) => `${it.host} (${count_of(it.failures, "failure")})`).join(", ")]] : []),
  ];
}
