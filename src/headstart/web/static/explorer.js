// Every cell of the store: any setting as a column, sorted, filtered, grouped, with mean and band over seeds.

import { h, fill, number, plural, select, debounce, duration, AXES, choice } from "./dom.js";
import { ask, isStatic } from "./data.js";
import { address, read, remember } from "./route.js";
import { chart } from "./chart.js";
import { heatmap } from "./heatmap.js";
import { colourOf } from "./colours.js";
import { buttons, csvOf } from "./picture.js";

const FIXED = [["mean", "final"], ["band", "± 95%"], ["num", "seeds"], ["diverged", "diverged"], ["area", "area"], ["seconds", "time"]];
const MOST_ROWS = 100;

export async function explorer(root) {
  let { cells, more } = await ask("cells");
  const { params } = read();
  const names = differing(cells);
  const chosen = (params.get("columns") ?? "").split(",").filter((name) => names.includes(name));
  const view = {
    filter: params.get("q") ?? "", sort: params.get("sort") ?? "-num", group: params.get("group") ?? "", limit: MOST_ROWS,
    columns: chosen.length ? chosen : usual(names), picked: new Set((params.get("picked") ?? "").split(";").filter(Boolean)),
    axis: params.get("axis") ?? "steps", metric: params.get("metric") ?? "", across: params.get("across") ?? "", down: params.get("down") ?? "",
  };
  const body = h("div", { className: "scroll" });
  const curves = h("div", { className: "panels one" });
  const pivot = h("div", { className: "panels one" });
  const count = h("span", { className: "muted" });

  const keep = () => remember({
    q: view.filter, sort: view.sort === "-num" ? "" : view.sort, group: view.group, picked: [...view.picked].join(";"), metric: view.metric,
    columns: view.columns.join(",") === usual(names).join(",") ? "" : view.columns.join(","), axis: view.axis === "steps" ? "" : view.axis, across: view.across, down: view.down,
  });
  const valueOf = (cell, name) => (name === "study" ? [...new Set(cell.users.map(([study]) => study))].join(", ") : name === "arm" ? [...new Set(cell.users.map(([, arm]) => arm))].join(", ") : name === "use" ? [...new Set(cell.users.map(([, , use]) => use))].join(", ") : cell.settings[name]);

  function rows() {
    const test = filterOf(view.filter, valueOf);
    const passed = cells.filter(test).map((cell) => ({ key: cell.cell, of: [cell], value: (name) => valueOf(cell, name), ...pooled([cell]) }));
    const out = view.group ? groupsOf(passed.map((row) => row.of[0])) : passed;
    const down = view.sort.startsWith("-");
    const by = view.sort.replace(/^-/, "");
    const read = (row) => (by in row ? row[by] : row.value(by));
    return out.sort((a, b) => (down ? -1 : 1) * compare(read(a), read(b)));
  }

  function groupsOf(passed) {
    const found = new Map();
    for (const cell of passed) {
      const key = JSON.stringify(valueOf(cell, view.group) ?? null);
      found.set(key, [...(found.get(key) ?? []), cell]);
    }
    return [...found.values()].map((of) => {
      const value = (name) => {
        const seen = [...new Set(of.map((cell) => JSON.stringify(valueOf(cell, name) ?? null)))];
        return seen.length === 1 ? JSON.parse(seen[0]) : `${seen.length} values`;
      };
      return { key: of.map((cell) => cell.cell).join(","), of, value, ...pooled(of) };
    });
  }

  function draw() {
    const all = rows();
    const columns = view.group ? [view.group, ...view.columns.filter((name) => name !== view.group)] : view.columns;
    const head = [["pick", ""], ...columns.map((name) => [name, name]), ...FIXED].map(([name, text]) => {
      if (name === "pick") return h("th", { scope: "col" }, h("span", { className: "hidden" }, "shown"));
      const sorted = view.sort.replace(/^-/, "") === name ? (view.sort.startsWith("-") ? "descending" : "ascending") : "none";
      return h("th", { scope: "col", "aria-sort": sorted }, h("button", { type: "button", className: "sort", onclick: () => {
        view.sort = view.sort === `-${name}` ? name : `-${name}`;
        keep();
        draw();
      } }, text, sorted === "descending" ? " ↓" : sorted === "ascending" ? " ↑" : ""));
    });
    const lines = all.slice(0, view.limit).map((row) => {
      const box = h("input", { type: "checkbox", checked: view.picked.has(row.key), "aria-label": "show its curve", onchange: () => {
        if (box.checked) view.picked.add(row.key);
        else view.picked.delete(row.key);
        keep();
        drawCurves();
      } });
      const single = row.of.length === 1;
      return h("tr", {}, h("td", {}, box),
        columns.map((name) => h("td", {}, show(row.value(name)))),
        h("td", { className: "num" }, single ? h("a", { href: address("runs", row.key) }, number(row.mean)) : number(row.mean)),
        h("td", { className: "num" }, number(row.band, 2)), h("td", { className: "num" }, row.num), h("td", { className: "num" }, row.diverged || ""),
        h("td", { className: "num" }, number(row.area)), h("td", { className: "num" }, duration(row.seconds)));
    });
    fill(body, h("table", { className: "cells" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, lines)),
      all.length > view.limit && h("button", { type: "button", className: "link", onclick: () => { view.limit += 400; draw(); } }, `show more of ${all.length}`));
    fill(count, `${plural(all.length, view.group ? "group" : "cell")} of ${cells.length}${more ? " (the store has more)" : ""}`);
    body.dataset.rows = all.length;
    drawPivot(all);
    return all;
  }

  async function drawCurves() {
    const byKey = new Map(rows().map((row) => [row.key, row]));
    const picked = [...view.picked].filter((key) => byKey.has(key)).slice(0, 24);
    if (!picked.length) return fill(curves, h("p", { className: "muted" }, "Tick rows to see their curves: mean and 95% band over seeds."));
    const shared = picked.map((key) => byKey.get(key).of[0].records).reduce((a, b) => a.filter((name) => b.includes(name)));
    const metric = shared.includes(view.metric) ? view.metric : shared.find((name) => name.startsWith("test_")) ?? shared[0];
    if (!shared.length) return fill(curves, h("p", { className: "muted" }, "These rows keep no curve in common."));
    const labels = labelsOf(picked.map((key) => byKey.get(key)), view);
    try {
      const { series } = await ask("curves", { series: picked.join(";"), metric, axis: view.axis, width: 600 });
      fill(curves, h("div", { className: "controls" },
        choice("axis", [["steps", "steps"], ["samples", "samples"], ["flops", "FLOPs"]], view.axis, (axis) => { view.axis = axis; keep(); drawCurves(); }),
        select("curve", shared.map((name) => [name, name.replaceAll("_", " ")]), metric, (name) => { view.metric = name; keep(); drawCurves(); })));
      chart(curves, { title: `${plural(picked.length, "row")}: ${metric.replaceAll("_", " ")}`, xLabel: AXES[view.axis], yLabel: metric.replaceAll("_", " "), height: 300,
        lines: series.map((made, i) => ({ label: labels[i], colour: colourOf(null, i), x: made[view.axis], mean: made.mean, low: made.low, high: made.high })) });
      curves.append(h("div", { className: "legend" }, labels.map((label, i) => h("span", { className: "arm still" }, h("i", { style: { background: colourOf(null, i) } }), label))));
    } catch (error) {
      fill(curves, h("p", { className: "fault" }, error.message));
    }
  }

  function drawPivot(all) {
    fill(pivot);
    if (!view.across || !view.down) return;
    const of = all.flatMap((row) => row.of);
    const axisOf = (name) => [...new Map(of.map((cell) => [JSON.stringify(valueOf(cell, name) ?? null), valueOf(cell, name)])).values()].sort(compare).slice(0, 60);
    const [xs, ys] = [axisOf(view.across), axisOf(view.down)];
    if (!xs.length || !ys.length) return;
    const values = ys.map((y) => xs.map((x) => {
      const inside = of.filter((cell) => same(valueOf(cell, view.across), x) && same(valueOf(cell, view.down), y));
      return inside.length ? pooled(inside).mean : null;
    }));
    heatmap(pivot, { title: `Mean final value by ${view.down} and ${view.across}`, values, xs, ys, xLabel: view.across, yLabel: view.down });
  }

  const search = h("input", { type: "search", className: "search", value: view.filter, "aria-label": "filter", placeholder: "Filter: optimizer.lr>0.1 task=Parity words",
    oninput: debounce(() => { view.filter = search.value; view.limit = MOST_ROWS; keep(); draw(); }, 120) });
  const every = ["study", "arm", "use", ...names];
  const change = (name) => (value) => { view[name] = value; view.picked.clear(); keep(); draw(); drawCurves(); };
  const pick = h("details", { className: "columns" }, h("summary", {}, "columns"), h("div", {}, every.map((name) => {
    const box = h("input", { type: "checkbox", checked: view.columns.includes(name), onchange: () => {
      view.columns = box.checked ? [...view.columns, name] : view.columns.filter((each) => each !== name);
      keep();
      draw();
    } });
    return h("label", {}, box, name);
  })));
  const none = [["", "nothing"], ...every.map((name) => [name, name])];
  fill(root, h("div", { className: "lead" }, h("h1", {}, "Runs by cell"), h("p", { className: "about" }, "A cell is a run without its seed. Final values are of the leading test metric; a diverged run counts as chance.")),
    h("div", { className: "controls" }, search, select("group by", none, view.group, change("group")), pick,
      select("heatmap of", none, view.down, change("down")), select("by", none, view.across, change("across")), count, h("span", { className: "gap" }),
      buttons("cells", { csv: () => csvOf([...view.columns, ...FIXED.map(([, text]) => text), "cell"], rows().map((row) => [...view.columns.map((name) => show(row.value(name))), row.mean, row.band, row.num, row.diverged, row.area, row.seconds, row.key])) })),
    body, pivot, curves);
  draw();
  drawCurves();
  return {
    search,
    async refresh() {
      ({ cells, more } = await ask("cells"));
      draw();
    },
  };
}

// The runs of one cell, seed by seed, each with a way to set it beside another.
export async function cellRuns(root, cell) {
  const made = await ask("runs", { cell });
  const last = read().params.get("beside");
  const metric = made.records.find((name) => name.startsWith("test_")) ?? made.records[0];
  const charts = h("div", { className: "panels one" });
  fill(root, h("div", { className: "lead" }, h("p", { className: "crumb" }, h("a", { href: "#/cells" }, "Runs"), ` / ${cell}`), h("h1", {}, `${plural(made.runs.length, "run")} of one cell`)), charts,
    h("div", { className: "scroll" }, h("table", { className: "cells" },
      h("thead", {}, h("tr", {}, ["seed", "ended", "final", "area", "time", ""].map((name) => h("th", {}, name)))),
      h("tbody", {}, made.runs.slice(0, 500).map((run) => h("tr", {}, h("td", {}, run.seed), h("td", {}, run.status), h("td", { className: "num" }, number(run.final)), h("td", { className: "num" }, number(run.area)), h("td", { className: "num" }, duration(run.seconds)),
        h("td", {}, h("a", { href: last ? address("compare", "", { a: last, b: `${cell}:${run.seed}` }) : address("compare", "", { a: `${cell}:${run.seed}`, b: made.runs.length > 1 ? `${cell}:${made.runs.find((other) => other.seed !== run.seed).seed}` : "" }) }, "compare"))))))),
    h("h2", {}, "Settings"), settingsTable(made.settings));
  if (!metric) fill(charts, h("p", { className: "muted" }, "These runs keep summaries only, and no curves."));
  else try {
    const shown = made.runs.slice(0, isStatic ? 8 : 32);
    const { series } = await ask("curves", { series: shown.map((run) => `${cell}:${run.seed}`).join(";"), metric, width: 480 });
    chart(charts, { title: `${metric.replaceAll("_", " ")}, seed by seed`, xLabel: AXES.steps, yLabel: metric.replaceAll("_", " "), bands: false, height: 280,
      lines: series.map((each, i) => ({ label: `seed ${shown[i].seed}`, colour: colourOf(null, i), width: 1.2, x: each.steps, mean: each.mean })) });
  } catch (error) {
    fill(charts, h("p", { className: "muted" }, error.message));
  }
  return {};
}

export function settingsTable(settings) {
  return h("table", { className: "settings" }, h("tbody", {}, Object.entries(settings).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, show(value))))));
}

export function show(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "number" ? number(value, 4) : String(value);
}

// Means over all runs of several cells, and the half-width of their 95% interval.
function pooled(of) {
  const num = of.reduce((sum, cell) => sum + cell.num, 0);
  const mean = of.reduce((sum, cell) => sum + cell.num * cell.mean, 0) / num;
  const squares = of.reduce((sum, cell) => sum + cell.squares + cell.num * (cell.mean - mean) ** 2, 0);
  const band = num > 1 ? student(num - 1) * Math.sqrt(squares / (num - 1) / num) : null;
  const total = (name) => of.reduce((sum, cell) => sum + cell[name], 0);
  return { num, mean, band, diverged: total("diverged"), seconds: total("seconds"), area: of.reduce((sum, cell) => sum + cell.num * cell.area, 0) / num };
}

// The 97.5% quantile of Student's t, by Cornish and Fisher's expansion; exact below 3 degrees of freedom.
function student(freedom) {
  if (freedom < 3) return [12.706, 4.303][freedom - 1];
  const z = 1.959964;
  return z + (z ** 3 + z) / (4 * freedom) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * freedom ** 2) + (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * freedom ** 3);
}

function differing(cells) {
  const seen = new Map();
  for (const cell of cells) for (const [name, value] of Object.entries(cell.settings)) seen.set(name, (seen.get(name) ?? new Set()).add(JSON.stringify(value)));
  const varied = [...seen].filter(([name, values]) => values.size > 1 || cells.some((cell) => !(name in cell.settings)));
  return (varied.length ? varied : [...seen]).map(([name]) => name);
}

function usual(names) {
  const first = ["task", "model", "plan", "optimizer.lr", "batch.size", "budget.steps"].filter((name) => names.includes(name));
  return first.length ? first : names.slice(0, 5);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (a === null || a === undefined || a === "") return -1;
  if (b === null || b === undefined || b === "") return 1;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function same(a, b) {
  return JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
}

function filterOf(text, valueOf) {
  const tests = text.split(/\s+/).filter(Boolean).map((term) => {
    const found = term.match(/^([\w.]+)(>=|<=|=|>|<)(.+)$/);
    if (!found) {
      const word = term.toLowerCase();
      return (cell) => `${cell.cell} ${JSON.stringify(cell.settings)} ${cell.users.flat().join(" ")}`.toLowerCase().includes(word);
    }
    const [, name, sign, right] = found;
    const bound = Number(right);
    return (cell) => {
      const value = name in cell && name !== "settings" && name !== "users" ? cell[name] : valueOf(cell, name);
      if (sign === "=") return typeof value === "number" ? value === bound : String(value ?? "").toLowerCase().includes(right.toLowerCase());
      if (typeof value !== "number") return false;
      return { ">": value > bound, "<": value < bound, ">=": value >= bound, "<=": value <= bound }[sign];
    };
  });
  return (cell) => tests.every((test) => test(cell));
}

function labelsOf(rows, view) {
  const names = view.group ? [view.group] : view.columns;
  const varied = names.filter((name) => new Set(rows.map((row) => show(row.value(name)))).size > 1);
  return rows.map((row) => (varied.length ? varied : names.slice(0, 2)).map((name) => `${name.split(".").at(-1)} ${show(row.value(name))}`).join(", ") || row.key.slice(0, 8));
}
