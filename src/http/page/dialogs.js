// Actions are confirmed: a dialog says what will happen before it does.

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
      ? [el("p", {}, "No new runners are created and idle ones are removed. ",
          busy ? `${busy === 1 ? "One runner finishes its job" : `${busy} runners finish their jobs`} first. ` : "",
          "Jobs that only this pool can serve stay queued until it is resumed.")]
      : [el("p", {}, "The pool creates runners again, up to ", el("b", {}, String(pool.max)), ".")],
    async act() {
      await act("POST", path("pools", pool.name, drain ? "drain" : "resume"));
      app.notice(drain ? `${pool.name} is draining.` : `${pool.name} resumed.`);
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
        ? "A job runs here or is about to. The deletion is scheduled and happens when the job has finished."
        : "The machine is deleted once it is certain that no job runs on it."),
      el("label", { for: "ask-why" }, "Why"),
      why,
      el("p", { class: "hint", id: "ask-why-hint" }, "Recorded in the timeline and the audit log; required with force."),
      el("p", { class: "check" }, force, el("label", { for: "ask-force" }, "Force: delete without checks. ", el("strong", {}, "Kills a running job."))),
    ],
    async act() {
      const body = { force: force.checked, why: why.value.trim() || null };
      const told = await act("DELETE", path("instances", it.name), body);
      app.notice(`${it.name}: ${told.answer ?? "noted"}${told.why ? `, ${told.why}` : ""}.`);
      app.changed();
    },
  });
}
