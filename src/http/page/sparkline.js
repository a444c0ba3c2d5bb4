// Queue times of the last hour: the worst as an area, the median as a line.

import { svg } from "./dom.js";
import { now, span } from "./format.js";

const HOUR = 3_600_000;

/** Draws `[{at, p50, max}]`, one entry a minute; minutes without jobs are gaps. */
export function sparkline(points, { width = 160, height = 34 } = {}) {
  const known = (points ?? []).filter((point) => point.max !== null && point.max !== undefined);
  const picture = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label(known) });
  picture.append(svg("path", { class: "base", d: `M0 ${height - 0.5}H${width}` }));
  if (!known.length) return picture;
  const first = now() - HOUR;
  const top = Math.max(1, ...known.map((point) => point.max));
  const x = (point) => Math.max(0, (Date.parse(point.at) - first) / HOUR) * (width - 4) + 2;
  const y = (value) => height - 1 - (value / top) * (height - 4);
  for (const run of runs(known)) {
    const [from, to] = [x(run[0]) - 1.2, x(run[run.length - 1]) + 1.2];
    const tops = run.map((point) => `L${fix(x(point))} ${fix(y(point.max))}`).join("");
    picture.append(svg("path", { class: "area", d: `M${fix(from)} ${height - 1}L${fix(from)} ${fix(y(run[0].max))}${tops}L${fix(to)} ${fix(y(run[run.length - 1].max))}L${fix(to)} ${height - 1}Z` }));
    const middles = run.map((point) => `L${fix(x(point))} ${fix(y(point.p50))}`).join("");
    picture.append(svg("path", { class: "median", d: `M${fix(from)} ${fix(y(run[0].p50))}${middles}L${fix(to)} ${fix(y(run[run.length - 1].p50))}` }));
  }
  return picture;
}

/** Says what the picture shows. */
export function label(known) {
  if (!known.length) return "Queue time: no job began in the last hour";
  const worst = Math.max(...known.map((point) => point.max));
  return `Queue time in the last hour: median lately ${span(known[known.length - 1].p50)}, worst ${span(worst)}`;
}

/** Splits points where minutes are missing. */
function runs(points) {
  const all = [[points[0]]];
  for (let at = 1; at < points.length; at += 1) {
    const apart = Date.parse(points[at].at) - Date.parse(points[at - 1].at);
    if (apart > 90_000) all.push([]);
    all[all.length - 1].push(points[at]);
  }
  return all;
}

function fix(number) {
  return Math.round(number * 10) / 10;
}
