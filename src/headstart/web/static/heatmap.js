// A table of numbers as colours, with values under the pointer.

import { h, fill, number } from "./dom.js";
import { css, ramp } from "./colours.js";
import { buttons, csvOf } from "./picture.js";

// values: rows of numbers or null; xs and ys: what columns and rows are; chosen: [row, column]
export function heatmap(place, { title, values, xs, ys, xLabel = "", yLabel = "", note = "", chosen = null, log = false }) {
  const readout = h("div", { className: "readout" });
  const finite = values.flat().filter((value) => Number.isFinite(value) && (!log || value > 0));
  const f = (value) => (log ? Math.log10(value) : value);
  const low = f(finite.reduce((a, b) => Math.min(a, b), Infinity));
  const high = f(finite.reduce((a, b) => Math.max(a, b), -Infinity));
  const share = (value) => (f(value) - low) / (high - low || 1);

  function draw() {
    const [left, top, right, bottom] = [78, 8, 12, 46];
    const side = Math.max(5, Math.min(46, 620 / values[0].length));
    const tall = Math.max(5, Math.min(34, 420 / values.length));
    const width = left + side * values[0].length + right;
    const height = top + tall * values.length + bottom;
    const muted = css("--muted");
    const each = (count, most) => Math.max(1, Math.ceil(count / most));
    const skipX = each(xs.length, Math.max(2, (side * xs.length) / 48));
    const skipY = each(ys.length, (tall * ys.length) / 16);
    const svg = h("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 10.5, role: "img", "aria-label": title });
    svg.append(h("rect", { width, height, fill: css("--ground") }));
    values.forEach((row, i) => row.forEach((value, j) => {
      const box = h("rect", { x: left + j * side, y: top + (values.length - 1 - i) * tall, width: side + 0.3, height: tall + 0.3,
        fill: Number.isFinite(value) && (!log || value > 0) ? ramp(share(value)) : css("--line"), "data-value": value ?? "" });
      box.append(h("title", {}, `${yLabel} ${show(ys[i])}, ${xLabel} ${show(xs[j])}: ${number(value)}`));
      box.addEventListener("pointerenter", () => fill(readout, h("b", {}, number(value)), `${yLabel} ${show(ys[i])}`, h("span", {}, `${xLabel} ${show(xs[j])}`)));
      svg.append(box);
    }));
    if (chosen) svg.append(h("rect", { x: left + chosen[1] * side, y: top + (values.length - 1 - chosen[0]) * tall, width: side, height: tall, fill: "none", stroke: css("--ink"), "stroke-width": 2 }));
    xs.forEach((x, j) => j % skipX === 0 && svg.append(h("text", { x: left + (j + 0.5) * side, y: height - bottom + 15, "text-anchor": "middle", fill: muted }, show(x))));
    ys.forEach((y, i) => i % skipY === 0 && svg.append(h("text", { x: left - 6, y: top + (values.length - 0.5 - i) * tall + 4, "text-anchor": "end", fill: muted }, show(y))));
    svg.append(h("text", { x: left + (side * xs.length) / 2, y: height - 8, "text-anchor": "middle", fill: muted }, xLabel));
    svg.append(h("text", { x: 12, y: top + (tall * ys.length) / 2, "text-anchor": "middle", fill: muted, transform: `rotate(-90 12 ${top + (tall * ys.length) / 2})` }, yLabel));
    return svg;
  }

  const csv = () => csvOf([yLabel || "row", xLabel || "column", "value"], values.flatMap((row, i) => row.map((value, j) => [ys[i], xs[j], value])));
  const from = log ? 10 ** low : low;
  const to = log ? 10 ** high : high;
  const frame = h("figure", { className: "chart heat" },
    h("figcaption", {}, h("span", { className: "title" }, title), buttons(title, { csv, svg: draw })),
    note && h("p", { className: "muted" }, note), h("div", { className: "scroll" }, draw()),
    h("div", { className: "key" }, number(from), h("i", { className: "ramp" }), number(to)), readout);
  place.append(frame);
  return frame;
}

function show(value) {
  return typeof value === "number" ? number(value) : String(value ?? "");
}
