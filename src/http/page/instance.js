// One instance: its life as a picture, why it is as it is, and, when it is over, why it ended.

import { act, get, path } from "./api.js";
import { el, keep, say, show } from "./dom.js";
import { badge, place, setBadge, since, words } from "./format.js";
import { timeline } from "./timeline.js";
import { askDelete } from "./dialogs.js";

/** Opens the view. */
export function open(main, { name }, app) {
  let [it, events, lines, death, missing] = [null, [], [], null, ""];
  const state = badge("pending_create");
  const marks = el("span", { class: "marks" });
  const button = el("button", { type: "button", class: "danger", onclick: () => it && askDelete(app, it, act, path) }, "Delete");
  const picture = el("div", { class: "picture" });
  const list = el("ol", { class: "news events" });
  const why = el("ul", { class: "sentences" });
  const facts = el("dl", { class: "facts" });
  const end = el("section", { class: "card verdict", "aria-labelledby": "h-end" }, el("h2", { id: "h-end" }, "How it ended"));
  const ended = el("div");
  end.append(ended);
  const none = el("p", { class: "empty" }, "Loading…");
  const body = el("div", { hidden: true },
    end,
    el("section", { class: "card", "aria-labelledby": "h-life" }, el("h2", { id: "h-life" }, "Timeline"), picture),
    el("div", { class: "halves" },
      el("section", { class: "card", "aria-labelledby": "h-events" }, el("h2", { id: "h-events" }, "Events"), list),
      el("div", {},
        el("section", { class: "card", "aria-labelledby": "h-why" }, el("h2", { id: "h-why" }, "Explanation"), why),
        el("section", { class: "card", "aria-labelledby": "h-facts" }, el("h2", { id: "h-facts" }, "Facts"), facts))));
  main.append(
    el("p", { class: "trail" }, el("a", { href: "#/instances" }, "Instances"), " / instance"),
    el("div", { class: "line-up" }, el("h1", { class: "name" }, name), state, marks, button), body, none);
  const sized = new ResizeObserver(() => it && drawPicture());
  sized.observe(picture);

  function drawPicture() {
    const width = Math.floor(picture.clientWidth);
    if (!width || !events.length) return;
    picture.replaceChildren(timeline(events, it.state, width));
  }

  return {
    title: name,
    async read() {
      try {
        const [found, story, told] = await Promise.all([
          get(path("instances", name)), get(path("instances", name, "timeline")), get(path("instances", name, "explain")),
        ]);
        [it, events, lines, missing] = [found, story.items, told.lines, ""];
        death ??= it.death;
      } catch (error) {
        if (error.status !== 404) throw error;
        missing = `Instance ${name} not found`;
      }
    },
    draw() {
      show(body, Boolean(it));
      show(none, !it);
      show(button, Boolean(it) && it.state !== "deleted");
      show(state, Boolean(it));
      if (!it) return say(none, missing || "Loading…");
      setBadge(state, it.state);
      keep(marks, [it.stuck && "stuck", it.phase && words(it.phase), it.owned === false && it.state !== "deleted" && "no owner", it.removal && `removal requested: ${words(it.removal.urgency)}`].filter(Boolean), (word) => word,
        (word) => el("span", { class: "mark", "data-weight": word === "stuck" ? "bad" : "warn" }, word));
      drawPicture();
      keep(list, [...events].reverse(), (event) => `${event.seq}-${event.count}`, (event) => el("li", {}, since(event.at, "clock"),
        el("span", { class: "text" }, event.text, event.count > 1 ? el("span", { class: "dim" }, ` ×${event.count}`) : null)));
      keep(why, lines.map((line, at) => ({ line, at })), (row) => `${row.at}${row.line}`, (row) => el("li", {}, row.line));
      keep(facts, factsOf(it), (fact) => fact[0], ([word]) => el("div", {}, el("dt", {}, word), el("dd")), (node, [, value]) => {
        const dd = node.lastChild;
        const text = value instanceof Node ? value.textContent : value;
        if (dd.textContent !== text) dd.replaceChildren(value);
      });
      show(end, Boolean(death));
      if (death && ended.told !== death) {
        ended.told = death;
        ended.replaceChildren(...verdict(death));
      }
    },
    close: () => sized.disconnect(),
  };
}

/** Says why it ended: verdict, evidence, advice and the last lines of its log. */
export function verdict(death) {
  const how = [death.exit_code !== null && death.exit_code !== undefined && `exit code ${death.exit_code}`, death.signal && `signal ${death.signal}`, death.reason].filter(Boolean);
  const tail = death.log_tail ?? [];
  return [
    el("p", { class: "lead" }, el("b", { class: "verdict-word", "data-verdict": death.verdict }, death.verdict),
      ` · fault: ${words(death.fault)}, ${words(death.confidence)} confidence${death.provisional_until ? ", provisional: GitHub may still correct it" : ""}${how.length ? ` · ${how.join(", ")}` : ""}`),
    death.advice ? el("p", { class: "advice" }, death.advice) : null,
    death.evidence?.length ? el("ul", { class: "sentences" }, death.evidence.map((line) => el("li", {}, line))) : null,
    el("h3", { id: "h-tail" }, "End of the log"),
    tail.length
      ? el("pre", { class: "tail", tabindex: "0", role: "region", "aria-labelledby": "h-tail" }, tail.join("\n"))
      : el("p", { class: "empty" }, `No log: ${death.log_missing ?? "reason unknown"}.`),
  ].filter(Boolean);
}

function factsOf(it) {
  const job = it.job ?? it.offered_job;
  return [
    ["Pool", el("a", { href: place("pools", it.pool) }, it.pool)],
    ...(job ? [[it.job ? "Job" : "Offered job", el("a", { href: place("jobs", job) }, String(job))]] : []),
    ["Runner", it.runner ? `${it.runner.name}${it.runner.id ? ` (id ${it.runner.id})` : ""}` : "not registered"],
    ["Machine", [it.machine, it.host].filter(Boolean).join(" on ") || "none yet"],
    ["Provider", it.provider],
    ...(it.removal ? [["Removal", [words(it.removal.urgency), words(it.removal.reason), it.removal.who && `by ${it.removal.who}`, it.removal.why].filter(Boolean).join(", ")]] : []),
    ...(it.warrant ? [["Warrant", `${words(it.warrant.kind)}: ${(it.warrant.evidence ?? []).join("; ")}`]] : []),
    ["Created", el("span", {}, since(it.created_at, "ago"))],
    ...(it.revision ? [["Revision", String(it.revision)]] : []),
  ];
}
