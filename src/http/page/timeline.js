// The life of an instance as a picture: a row a state, a bar from coming to leaving, marks for
// what else happened. The list of events beside it says the same in words.

import { svg } from "./dom.js";
import { STATES, clock, now, span } from "./format.js";

const ROW = 24;
const TOP = 22;

/** Reads the stays in states from the events. */
export function stays(events, state) {
  const moves = [];
  for (const event of events) {
    if (event.kind === "moved") moves.push({ at: Date.parse(event.at), from: event.detail.from, to: event.detail.to });
  }
  const first = events.length ? Date.parse(events[0].at) : now();
  const found = [{ state: moves[0]?.from ?? state, from: first, to: null }];
  for (const move of moves) {
    found[found.length - 1].to = move.at;
    found.push({ state: move.to, from: move.at, to: null });
  }
  const end = found[found.length - 1];
  end.to = end.state === "deleted" ? end.from : Math.max(now(), end.from);
  end.open = end.state !== "deleted";
  return found;
}

/** Draws the picture for so many pixels of width. */
export function timeline(events, state, width) {
  const all = stays(events, state);
  const rows = STATES.filter((name) => all.some((stay) => stay.state === name));
  const left = width < 480 ? 104 : 124;
  const right = width < 480 ? 46 : 66;
  const [from, to] = [all[0].from, Math.max(all[all.length - 1].to, all[0].from + 1000)];
  const height = TOP + rows.length * ROW + 26;
  const x = (at) => left + ((at - from) / (to - from)) * (width - left - right);
  const y = (name) => TOP + rows.indexOf(name) * ROW;
  const sum = all.map((stay) => `${stay.state}${stay.state === "deleted" ? "" : ` for ${span((stay.to - stay.from) / 1000)}`}`).join(", then ");
  const picture = svg("svg", { class: "life", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Timeline: ${sum}` });
  grid(picture, from, to, x, height, width < 480 ? 1 : 4);
  rows.forEach((name, index) => {
    if (index % 2) picture.append(svg("rect", { class: "band", x: 0, y: y(name), width, height: ROW }));
    picture.append(svg("text", { class: "row", x: left - 10, y: y(name) + 16, "text-anchor": "end" }, name));
  });
  all.forEach((stay, index) => {
    const [begin, end] = [x(stay.from), x(stay.to)];
    const before = all[index - 1];
    if (before) {
      const [above, below] = [y(before.state) + ROW / 2, y(stay.state) + ROW / 2];
      picture.append(svg("path", { class: "step", d: `M${begin} ${above}V${below}` }));
    }
    const wide = Math.max(end - begin, 4);
    const bar = svg("rect", { class: "bar", "data-state": stay.state, "data-open": stay.open ? "yes" : null, x: begin, y: y(stay.state) + 6, width: wide, height: ROW - 12, rx: 3 });
    const spent = stay.state === "deleted" ? clock(stay.to) : span((stay.to - stay.from) / 1000);
    bar.append(svg("title", {}, `${stay.state}, ${spent}, from ${clock(stay.from)}`));
    picture.append(bar);
    // A state visited again and again gets one figure, at its last bar.
    const last = !all.slice(index + 1).some((other) => other.state === stay.state);
    if (last && stay.state !== "deleted") {
      const total = all.filter((other) => other.state === stay.state).reduce((sum, other) => sum + other.to - other.from, 0);
      const fits = begin + wide + right < width + 8;
      picture.append(svg("text", { class: "span", x: fits ? begin + wide + 6 : begin - 6, y: y(stay.state) + 16, "text-anchor": fits ? "start" : "end" }, span(total / 1000)));
    }
  });
  const floor = TOP + rows.length * ROW + 9;
  for (const event of events) {
    if (event.kind === "moved") continue;
    const at = x(Math.min(Math.max(Date.parse(event.at), from), to));
    const dot = svg("path", { class: "event", d: `M${at} ${floor - 5}l5 5l-5 5l-5 -5z` });
    dot.append(svg("title", {}, `${clock(event.at)} ${event.text}`));
    picture.append(dot);
  }
  picture.append(svg("text", { class: "row", x: left - 10, y: floor + 4, "text-anchor": "end" }, "events"));
  return picture;
}

function grid(picture, from, to, x, height, lines) {
  for (let step = 0; step <= lines; step += 1) {
    const at = from + ((to - from) * step) / lines;
    picture.append(svg("path", { class: "grid", d: `M${x(at)} ${TOP}V${height - 8}` }));
    const anchor = step === 0 ? "start" : step === lines ? "end" : "middle";
    picture.append(svg("text", { class: "axis", x: x(at), y: 14, "text-anchor": anchor }, clock(at)));
  }
}
