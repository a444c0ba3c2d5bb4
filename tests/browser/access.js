// What keeps people out of a page, as sentences. Names of things are asked of the browser's own
// accessibility tree instead; here is what that tree does not say.

const found = [];
const all = (selector) => [...document.querySelectorAll(selector)];
const visible = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
const shown = (node) => node.outerHTML.slice(0, 120);

// Landmarks and structure.
for (const [selector, word] of [["main", "main"], ["body > header", "header"], ["body > footer", "footer"]]) {
  if (all(selector).length !== 1) found.push(`there must be one ${word}, not ${all(selector).length}`);
}
if (!document.documentElement.lang) found.push("the language is not said");
if (!document.title) found.push("the page has no title");
if (all("h1").length !== 1) found.push(`there must be one h1 heading, not ${all("h1").length}`);
let level = 0;
for (const heading of all("main h1, main h2, main h3, main h4")) {
  const next = Number(heading.tagName[1]);
  if (next > level + 1) found.push(`a heading jumps from ${level} to ${next}: ${shown(heading)}`);
  level = next;
}
const ids = new Set();
for (const node of all("[id]")) {
  if (ids.has(node.id)) found.push(`the id ${node.id} is there twice`);
  ids.add(node.id);
}
for (const node of all("[aria-labelledby], [aria-describedby]")) {
  for (const name of ["aria-labelledby", "aria-describedby"]) {
    for (const id of (node.getAttribute(name) ?? "").split(" ").filter(Boolean)) {
      if (!document.getElementById(id)) found.push(`${name} leads to nothing: ${id}`);
    }
  }
}
for (const field of all("input, select, textarea").filter(visible)) {
  if (!field.labels?.length && !field.getAttribute("aria-label")) found.push(`a field without a label: ${shown(field)}`);
}
for (const table of all("table").filter(visible)) {
  if (!table.caption) found.push("a table without a caption");
  if (!table.querySelector("th[scope=col]")) found.push("a table without headed columns (caption or scope)");
}
for (const node of all("[tabindex]")) if (node.tabIndex > 0) found.push(`tabindex changes the order: ${shown(node)}`);
if (document.documentElement.scrollWidth > document.documentElement.clientWidth) found.push("the page scrolls sideways");

// Things to press are large enough, unless they stand in a line of text (WCAG 2.5.8).
for (const node of all("button, select, input, summary").filter(visible)) {
  const box = node.getBoundingClientRect();
  const small = Math.min(box.width, box.height) < 24;
  if (small && !(node.type === "checkbox" && node.labels?.length)) found.push(`too small to press, ${Math.round(box.width)}×${Math.round(box.height)}: ${shown(node)}`);
}

// Contrast of text (WCAG 1.4.3).
const parse = (text) => {
  const numbers = text.match(/[\d.]+(?:e-?\d+)?/g)?.map(Number) ?? [0, 0, 0, 0];
  const scale = text.startsWith("color(") ? 255 : 1;
  return { rgb: numbers.slice(0, 3).map((it) => it * scale), a: numbers[3] ?? 1 };
};
const over = (top, below) => top.rgb.map((it, at) => it * top.a + below[at] * (1 - top.a));
const ground = (node) => {
  const layers = [];
  for (let at = node; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.a > 0) layers.push(colour);
    if (colour.a === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
};
const light = (rgb) => {
  const [r, g, b] = rgb.map((it) => it / 255).map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const seen = new Set();
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || seen.has(node) || !visible(node) || node.closest("[aria-hidden=true], script, noscript, :disabled, option")) continue;
  seen.add(node);
  const box = node.getBoundingClientRect();
  if (box.width <= 1 || box.height <= 1) continue;
  const style = getComputedStyle(node);
  const ink = node.closest("svg") ? style.fill : style.color;
  const back = ground(node);
  const [a, b] = [light(over(parse(ink), back)), light(back)];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize);
  const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  if (ratio < needed) found.push(`contrast ${ratio.toFixed(2)} is below ${needed}: ${ink} on ${back.map(Math.round)} in ${shown(node)}`);
}
return found;
