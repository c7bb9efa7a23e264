// Elements, numbers and words.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "rect", "text", "circle", "title", "polygon"]);

export function h(tag, attributes = {}, ...children) {
  const made = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(made.style, value);
    else if (name in made && !SVG_TAGS.has(tag) && name !== "list") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  append(made, children);
  return made;
}

function append(to, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    to.append(child instanceof Node ? child : String(child));
  }
}

export function fill(place, ...children) {
  place.replaceChildren();
  append(place, children);
  return place;
}

// Three digits, as the reports have them.
export function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) {
    const [head, tail] = value.toExponential(digits - 1).split("e");
    return `${String(Number(head)).replace("-", "−")}e${Number(tail)}`;
  }
  const text = size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${number(seconds / 3600, 2)} h`;
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

export const VERDICTS = ["holds", "absent", "undecided", "does not hold"];
export const KINDS = ["primary", "secondary", "control", "identity", "post hoc"];
export const AXES = { steps: "optimizer steps", samples: "samples processed", flops: "training FLOPs" };

export function verdictMark(verdict) {
  return h("span", { className: `verdict v-${verdict.replaceAll(" ", "-")}` }, h("i", { "aria-hidden": "true" }), verdict);
}

// A row of buttons of which one is pressed.
export function choice(label, options, chosen, onchange) {
  const group = h("div", { className: "choice", role: "group", "aria-label": label });
  for (const [value, text] of options) {
    const button = h("button", { type: "button", "aria-pressed": String(value === chosen) }, text);
    button.addEventListener("click", () => {
      for (const other of group.children) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", "true");
      onchange(value);
    });
    group.append(button);
  }
  return group;
}

export function toggle(text, on, onchange, title = "") {
  const button = h("button", { type: "button", className: "toggle", "aria-pressed": String(on), title }, text);
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(now));
    onchange(now);
  });
  return button;
}

export function select(label, options, chosen, onchange) {
  const made = h("select", { "aria-label": label, onchange: () => onchange(made.value) });
  for (const [value, text] of options) made.append(h("option", { value, selected: value === chosen }, text));
  return h("label", { className: "select" }, h("span", {}, label), made);
}

export function debounce(what, milliseconds) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => what(...args), milliseconds);
  };
}
