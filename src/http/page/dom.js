// Nodes without strings of markup: whatever a runner, a job or a log says becomes text, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Makes an element of HTML. Children are nodes or text. */
export function el(name, props, ...children) {
  return fill(document.createElement(name), props, children);
}

/** Makes an element of SVG. */
export function svg(name, props, ...children) {
  return fill(document.createElementNS(SVG, name), props, children);
}

/** Sets a text, if it is another. */
export function say(node, text) {
  const value = text ?? "";
  if (node.textContent !== value) node.textContent = value;
}

/** Sets or removes an attribute, if it is another. */
export function mark(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

/** Shows or hides a node. */
export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

/**
 * Makes the children of a parent be those of a list, in order: nodes of known keys stay (with
 * focus, selection and open details), others come and go.
 */
export function keep(parent, items, keyOf, make, update) {
  const known = parent.known ?? (parent.known = new Map());
  const seen = new Set();
  let place = parent.firstChild;
  for (const item of items) {
    const key = String(keyOf(item));
    if (seen.has(key)) continue;
    seen.add(key);
    let node = known.get(key);
    if (!node) {
      node = make(item);
      known.set(key, node);
    }
    update?.(node, item);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  for (const [key, node] of known) {
    if (!seen.has(key)) {
      node.remove();
      known.delete(key);
    }
  }
}

/** Remembers the parts of a node that change, so that an update need not look for them. */
export function parts(node, named) {
  node.parts = named;
  return node;
}
