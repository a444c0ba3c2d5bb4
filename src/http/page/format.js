// How times, spans and states are written.

import { el, mark, say } from "./dom.js";

let skew = 0;

/** Learns the daemon's clock: ages are counted by it, not by this machine's. */
export function learnClock(now) {
  const told = Date.parse(now);
  if (!Number.isNaN(told)) skew = told - Date.now();
}

/** Returns the daemon's time in milliseconds. */
export function now() {
  return Date.now() + skew;
}

/** Writes a span of seconds: `3 s`, `12 min`, `4 h 10 min`. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const s = Math.max(0, seconds);
  if (s < 10) return `${s < 1 ? Math.round(s * 10) / 10 : Math.round(s)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 && hours < 10 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

/** Returns the seconds since a time. */
export function age(at) {
  return (now() - Date.parse(at)) / 1000;
}

/** Writes a time of day, with the date if it is another day. */
export function clock(at) {
  const date = new Date(at);
  const day = date.toDateString() === new Date(now()).toDateString() ? {} : { month: "short", day: "numeric" };
  return date.toLocaleString(undefined, { ...day, hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

/** Makes a node that shows how long ago something was, and goes on counting. */
export function since(at, how = "age") {
  const node = el("time", { "data-how": how });
  setSince(node, at);
  return node;
}

/** Changes what a counting node counts from. */
export function setSince(node, at) {
  mark(node, "datetime", at);
  mark(node, "title", at ? new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC") : null);
  count(node);
}

function count(node) {
  const at = node.getAttribute("datetime");
  if (!at) return say(node, "–");
  say(node, node.dataset.how === "clock" ? clock(at) : span(age(at)) + (node.dataset.how === "ago" ? " ago" : ""));
}

/** Lets every visible age grow. */
export function tick() {
  for (const node of document.querySelectorAll("time[data-how]")) count(node);
}

/** The states of an instance, in the order of its life. */
export const STATES = [
  "pending_create", "creating", "starting", "idle", "reserved", "busy",
  "retiring", "ended", "pending_delete", "deleting", "deleted",
];

/** Makes a badge: a shape and a word, so that colour alone never tells. */
export function badge(state) {
  const node = el("span", { class: "badge" }, el("span", { class: "shape", "aria-hidden": "true" }), el("span", { class: "word" }));
  setBadge(node, state);
  return node;
}

/** Changes a badge. */
export function setBadge(node, state) {
  mark(node, "data-state", state);
  say(node.lastChild, state);
}

/** Writes a name of the API for people. */
export function words(name) {
  return (name ?? "").replaceAll("_", " ");
}

/** Writes a number with one word, in the plural if need be. */
export function count_of(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

/** Returns the address of a place on this page. */
export function place(...path) {
  return `#/${path.map(encodeURIComponent).join("/")}`;
}
