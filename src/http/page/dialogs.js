// Deeds are asked for twice: a dialog says what will happen before it does.

import { el, say } from "./dom.js";

const byId = (id) => document.getElementById(id);
let pending = null;

/** Wires the dialog, once. */
export function prepare() {
  byId("ask-no").addEventListener("click", () => byId("ask").close());
  byId("ask-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const yes = byId("ask-yes");
    if (!pending || yes.disabled) return;
    yes.disabled = true;
    say(byId("ask-trouble"), "");
    try {
      await pending.act();
      byId("ask").close();
    } catch (error) {
      say(byId("ask-trouble"), error.message);
    } finally {
      yes.disabled = false;
    }
  });
  byId("ask").addEventListener("close", () => (pending = null));
}

/**
 * Asks before something is done. `body` holds nodes; `act` does it, and whatever it throws is
 * shown in the dialog, which then stays.
 */
export function confirm({ title, yes, body, danger, act }) {
  pending = { act };
  say(byId("ask-title"), title);
  say(byId("ask-yes"), yes);
  say(byId("ask-trouble"), "");
  byId("ask-yes").classList.toggle("danger", Boolean(danger));
  byId("ask-body").replaceChildren(...body);
  byId("ask").showModal();
  (byId("ask-body").querySelector("input, textarea") ?? byId("ask-no")).focus();
}

/** Asks to drain or resume a pool. */
export function askPool(app, pool, act, path) {
  const busy = (pool.states?.busy ?? 0) + (pool.states?.reserved ?? 0);
  const drain = !pool.draining;
  confirm({
    title: drain ? `Drain ${pool.name}?` : `Resume ${pool.name}?`,
    yes: drain ? "Drain" : "Resume",
    body: drain
      ? [el("p", {}, "No new runners are made and idle ones leave. ",
          busy ? `Work goes on: ${busy === 1 ? "one runner finishes its job" : `${busy} runners finish their jobs`} first. ` : "",
          "Jobs that only this pool can serve wait until it is resumed.")]
      : [el("p", {}, "The pool makes runners again, up to ", el("b", {}, String(pool.max)), ".")],
    async act() {
      await act("POST", path("pools", pool.name, drain ? "drain" : "resume"));
      app.notice(drain ? `${pool.name} drains.` : `${pool.name} is resumed.`);
      app.changed();
    },
  });
}

/** Asks to delete an instance. */
export function askDelete(app, it, act, path) {
  const force = el("input", { type: "checkbox", id: "ask-force" });
  const why = el("input", { type: "text", id: "ask-why", autocomplete: "off", maxlength: "500", "aria-describedby": "ask-why-hint" });
  force.addEventListener("change", () => (why.required = force.checked));
  const works = ["busy", "reserved"].includes(it.state);
  confirm({
    title: `Delete ${it.name}?`,
    yes: "Delete",
    danger: true,
    body: [
      el("p", {}, works
        ? "A job runs here, or is promised to it. The request is kept and applied when the runner is free."
        : "Its owner makes sure that no job runs there, then deletes the machine."),
      el("label", { for: "ask-why" }, "Why"),
      why,
      el("p", { class: "hint", id: "ask-why-hint" }, "Goes into the timeline and the audit log; needed with force."),
      el("p", { class: "check" }, force, el("label", { for: "ask-force" }, "Force: delete without proof. ", el("strong", {}, "Kills a running job."))),
    ],
    async act() {
      const body = { force: force.checked, why: why.value.trim() || null };
      const told = await act("DELETE", path("instances", it.name), body);
      app.notice(`${it.name}: ${told.answer ?? "noted"}${told.why ? `, ${told.why}` : ""}.`);
      app.changed();
    },
  });
}
