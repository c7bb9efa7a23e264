// What the sweep of each arm tried, and what it chose.

import { h, number } from "./dom.js";
import { chart } from "./chart.js";
import { heatmap } from "./heatmap.js";

const short = (path) => path.split(".").at(-1);

export function sweeps(place, report, arms) {
  const swept = arms.filter((arm) => report.choices?.[arm.key]?.tries?.length);
  const one = swept.filter((arm) => pathsOf(report.choices[arm.key]).length === 1);
  const two = swept.filter((arm) => pathsOf(report.choices[arm.key]).length === 2);
  const kinds = new Map();
  for (const arm of one) {
    const made = report.choices[arm.key];
    const kind = `${pathsOf(made)[0]}|${made.by}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), arm]);
  }
  for (const [kind, members] of kinds) {
    const [path, by] = kind.split("|");
    const box = h("div", { className: "panel" });
    place.append(box);
    const lines = members.map((arm) => {
      const tries = report.choices[arm.key].tries.filter((each) => Number.isFinite(each.score) && Number.isFinite(each.values[path])).sort((a, b) => a.values[path] - b.values[path]);
      return { label: `${arm.label} (${arm.key})`, colour: arm.tint, x: tries.map((each) => each.values[path]), mean: tries.map((each) => each.score) };
    }).filter((line) => line.x.length);
    const marks = members.filter((arm) => Number.isFinite(report.choices[arm.key].values[path])).map((arm) => ({ x: report.choices[arm.key].values[path], colour: arm.tint }));
    chart(box, { title: `${short(path)}: ${by || "score"}`, lines, marks, logX: true, xLabel: path, yLabel: "score", height: 230 });
    box.append(h("div", { className: "legend" }, members.map((arm) => h("span", { className: "arm still" }, h("i", { style: { background: arm.tint } }), `${arm.label}: ${number(report.choices[arm.key].values[path])}`))));
  }
  for (const arm of two) {
    const made = report.choices[arm.key];
    const [x, y] = pathsOf(made);
    const xs = values(made, x);
    const ys = values(made, y);
    const box = h("div", { className: "panel" });
    place.append(box);
    const at = (i, j) => made.tries.find((each) => same(each.values[x], xs[j]) && same(each.values[y], ys[i]))?.score ?? null;
    const grid = ys.map((_, i) => xs.map((__, j) => at(i, j)));
    const chosen = [ys.findIndex((value) => same(value, made.values[y])), xs.findIndex((value) => same(value, made.values[x]))];
    heatmap(box, { title: `${arm.label}: ${made.by || "score"}`, values: grid, xs, ys, xLabel: short(x), yLabel: short(y), chosen: chosen.every((each) => each >= 0) ? chosen : null, note: "the frame is what was chosen" });
  }
  return swept.length > 0;
}

function pathsOf(made) {
  return Object.keys(made.tries[0].values).filter((path) => values(made, path).length > 1 || Object.keys(made.tries[0].values).length === 1);
}

function values(made, path) {
  const seen = new Map(made.tries.map((each) => [JSON.stringify(each.values[path]), each.values[path]]));
  return [...seen.values()].sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
}

function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}
