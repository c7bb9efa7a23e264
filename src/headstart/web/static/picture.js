// What is shown, to take away: CSV, and drawings as SVG, or as PNG made from them.

import { h, number } from "./dom.js";
import { css, faded } from "./colours.js";
import { axisOf } from "./intervals.js";

export function buttons(name, { csv, svg }) {
  const file = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "headstart";
  const button = (kind, what) => h("button", { type: "button", className: "take", title: `save as ${kind.toUpperCase()}`, onclick: what }, kind.toUpperCase());
  return h("span", { className: "takes" },
    svg && button("png", async () => save(`${file}.png`, await png(svg()))),
    svg && button("svg", () => save(`${file}.svg`, new Blob([text(svg())], { type: "image/svg+xml" }))),
    csv && button("csv", () => save(`${file}.csv`, new Blob([csv()], { type: "text/csv" }))));
}

export function csvOf(head, rows) {
  const cell = (value) => {
    const said = value === null || value === undefined ? "" : String(value);
    // A spreadsheet would take a leading sign for a formula; a number keeps it.
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(said) ? `'${said}` : said;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function save(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function text(svg) {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(svg)}`;
}

function png(svg) {
  return new Promise((resolve, reject) => {
    const picture = new Image();
    const source = URL.createObjectURL(new Blob([text(svg)], { type: "image/svg+xml" }));
    picture.onload = () => {
      const canvas = h("canvas", { width: 2 * picture.width, height: 2 * picture.height });
      const context = canvas.getContext("2d");
      context.scale(2, 2);
      context.drawImage(picture, 0, 0);
      URL.revokeObjectURL(source);
      canvas.toBlob(resolve, "image/png");
    };
    picture.onerror = reject;
    picture.src = source;
  });
}

function sheet(width, height, children) {
  const made = h("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 11 });
  made.append(h("rect", { width, height, fill: css("--ground") }), ...children.flat(Infinity).filter(Boolean));
  return made;
}

const label = (x, y, said, more = {}) => h("text", { x, y, fill: css("--ink"), ...more }, said);

// The curves of a chart as an SVG of their own.
export function drawing({ title, lines, xLabel, yLabel, logX, logY, marks = [], levels = [], bands, range }) {
  const [width, height, left, top, right, bottom] = [720, 440, 64, 40, 16, 84];
  const usable = (value, log) => value !== null && Number.isFinite(value) && (!log || value > 0);
  const xs = lines.flatMap((each) => each.x).filter((x) => usable(x, logX));
  const ys = lines.flatMap((each) => [...each.mean, ...(bands === false ? [] : [...(each.low ?? []), ...(each.high ?? [])])]).filter((y) => usable(y, logY));
  const [x0, x1] = range ?? [least(xs), most(xs)];
  const [y0, y1] = [least(ys), most(ys)];
  const f = (value, log) => (log ? Math.log10(value) : value);
  const at = (value, low, high, log, from, to) => from + ((f(value, log) - f(low, log)) / (f(high, log) - f(low, log) || 1)) * (to - from);
  const px = (x) => at(x, x0, x1, logX, left, width - right);
  const py = (y) => at(y, y0, y1, logY, height - bottom, top);
  const keep = (each) => each.x.map((x, i) => i).filter((i) => usable(each.x[i], logX) && each.x[i] >= x0 && each.x[i] <= x1 && usable(each.mean[i], logY));
  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${px(x).toFixed(1)},${py(y).toFixed(1)}`).join("");
  const grid = css("--line");
  const muted = { fill: css("--muted") };
  let legend = left;
  return sheet(width, height, [
    label(left, 22, title ?? "", { "font-size": 13, "font-weight": 600 }),
    ticks(x0, x1, logX).map((tick) => [h("line", { x1: px(tick), x2: px(tick), y1: top, y2: height - bottom, stroke: grid }),
      label(px(tick), height - bottom + 16, number(tick), { "text-anchor": "middle", ...muted })]),
    ticks(y0, y1, logY).map((tick) => [h("line", { x1: left, x2: width - right, y1: py(tick), y2: py(tick), stroke: grid }),
      label(left - 8, py(tick) + 4, number(tick), { "text-anchor": "end", ...muted })]),
    label((left + width - right) / 2, height - bottom + 34, xLabel ?? "", { "text-anchor": "middle", ...muted }),
    label(16, (top + height - bottom) / 2, yLabel ?? "", { "text-anchor": "middle", transform: `rotate(-90 16 ${(top + height - bottom) / 2})`, ...muted }),
    marks.filter((mark) => mark.x >= x0 && mark.x <= x1).map((mark) => h("line", { x1: px(mark.x), x2: px(mark.x), y1: top, y2: height - bottom, stroke: mark.colour, "stroke-dasharray": "3 4" })),
    levels.filter((level) => level.y >= y0 && level.y <= y1).map((level) => h("line", { x1: left, x2: width - right, y1: py(level.y), y2: py(level.y), stroke: css("--ink"), "stroke-dasharray": "1.5 3" })),
    lines.map((each) => {
      const kept = keep(each);
      const banded = bands !== false && each.low ? kept.filter((i) => usable(each.low[i], logY) && usable(each.high[i], logY)) : [];
      const outline = [...banded.map((i) => [each.x[i], each.high[i]]), ...banded.reverse().map((i) => [each.x[i], each.low[i]])];
      return [outline.length ? h("path", { d: `${path(outline)}Z`, fill: faded(each.colour, 0.18) }) : null,
        h("path", { d: path(kept.map((i) => [each.x[i], each.mean[i]])), fill: "none", stroke: each.colour, "stroke-width": each.width ?? 2, "stroke-dasharray": each.dash?.join(" ") ?? "none", "stroke-linejoin": "round" })];
    }),
    lines.slice(0, 24).map((each) => {
      const x = legend;
      legend += 30 + 6.2 * each.label.length;
      const row = Math.floor((x - left) / (width - left - right));
      const place = left + ((x - left) % (width - left - right));
      return [h("line", { x1: place, x2: place + 14, y1: height - 22 + 14 * row, y2: height - 22 + 14 * row, stroke: each.colour, "stroke-width": 3 }), label(place + 19, height - 18 + 14 * row, each.label)];
    }),
  ]);
}

function least(list) {
  return list.reduce((a, b) => Math.min(a, b), Infinity);
}

function most(list) {
  return list.reduce((a, b) => Math.max(a, b), -Infinity);
}

function ticks(low, high, log) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [];
  if (log) {
    const out = [];
    for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high) + 1e-9; power += 1) out.push(10 ** power);
    return out;
  }
  const rough = (high - low) / 5 || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((each) => each >= rough);
  const out = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) out.push(Number(tick.toPrecision(12)));
  return out;
}

// The scoreboard as a forest plot.
export function forest(studies) {
  const width = 1000;
  const [left, right] = [470, 40];
  const claims = studies.flatMap((study) => study.claims);
  const axis = axisOf(claims);
  const px = (value) => left + ((width - left - right - 150) * axis.at(value)) / 100;
  const rows = [];
  let y = 46;
  for (const study of studies) {
    rows.push(label(16, y, study.title ?? study.study, { "font-size": 12.5, "font-weight": 600 }));
    y += 20;
    for (const claim of study.claims) {
      const colour = css(`--${claim.verdict.replaceAll(" ", "-")}`);
      const low = Number.isFinite(claim.low) ? px(claim.low) : left;
      const high = Number.isFinite(claim.high) ? px(claim.high) : width - right - 150;
      rows.push(label(24, y, claim.statement.length > 78 ? `${claim.statement.slice(0, 77)}…` : claim.statement),
        h("line", { x1: low, x2: high, y1: y - 4, y2: y - 4, stroke: colour, "stroke-width": 4, "stroke-linecap": "round", opacity: 0.5 }),
        Number.isFinite(claim.estimate) ? h("circle", { cx: px(claim.estimate), cy: y - 4, r: 4, fill: colour }) : null,
        label(width - right - 135, y, `${claim.interval ?? ""}`), label(width - right + 30, y, claim.verdict, { "text-anchor": "end", fill: colour, "font-size": 10 }));
      y += 19;
    }
    y += 12;
  }
  const lines = axis.ticks.map((tick) => [h("line", { x1: px(tick), x2: px(tick), y1: 26, y2: y - 14, stroke: css("--line") }),
    label(px(tick), 20, number(tick), { "text-anchor": "middle", fill: css("--muted") })]);
  return sheet(width, y, [lines, rows]);
}
