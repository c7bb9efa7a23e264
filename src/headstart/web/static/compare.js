// Two runs side by side: where their settings differ, and their curves together.

import { h, fill, number, choice, select, toggle, AXES } from "./dom.js";
import { ask } from "./data.js";
import { read, remember } from "./route.js";
import { chart } from "./chart.js";
import { colourOf } from "./colours.js";
import { show } from "./explorer.js";

export async function compare(root) {
  const { params } = read();
  const view = { a: params.get("a") ?? "", b: params.get("b") ?? "", axis: params.get("axis") ?? "steps", metric: params.get("metric") ?? "", all: params.get("all") === "1" };
  const { cells } = await ask("cells");
  const claimed = cells.filter((cell) => cell.records.length && cell.users.some(([, , use]) => use === "claim"));
  const [one, other = one] = (claimed.length ? claimed : cells).toSorted((a, b) => arm(a).localeCompare(arm(b)));
  if (!view.a && one) view.a = `${one.cell}:${one.first}`;
  if (!view.b && other) view.b = other === one ? `${one.cell}:${one.last}` : `${other.cell}:${other.first}`;
  const place = h("div", {});
  const names = h("datalist", { id: "runs" }, cells.slice(0, 400).map((cell) => h("option", { value: `${cell.cell}:${cell.first}` }, cell.users.map(([study, arm]) => `${study} ${arm}`)[0] ?? "")));
  const field = (side) => {
    const made = h("input", { type: "text", className: "run", value: view[side], list: "runs", spellcheck: false, "aria-label": `run ${side}`, onchange: () => { view[side] = made.value.trim(); keep(); draw(); } });
    made.setAttribute("list", "runs");
    return h("label", { className: "select" }, h("span", {}, side === "a" ? "this run" : "beside"), made);
  };
  const keep = () => remember({ a: view.a, b: view.b, axis: view.axis === "steps" ? "" : view.axis, metric: view.metric, all: view.all ? "1" : "" });

  async function draw() {
    if (!view.a || !view.b) return fill(place, h("p", { className: "nothing" }, "The store has no runs to compare yet."));
    try {
      const [one, other] = await Promise.all([view.a, view.b].map((key) => side(key)));
      const shared = one.made.records.filter((name) => other.made.records.includes(name));
      const metric = shared.includes(view.metric) ? view.metric : shared.find((name) => name.startsWith("test_")) ?? shared[0];
      const controls = h("div", { className: "controls" },
        choice("axis", [["steps", "steps"], ["samples", "samples"], ["flops", "FLOPs"]], view.axis, (axis) => { view.axis = axis; keep(); draw(); }),
        shared.length ? select("curve", shared.map((name) => [name, name.replaceAll("_", " ")]), metric, (name) => { view.metric = name; keep(); draw(); }) : null,
        toggle("all settings", view.all, (on) => { view.all = on; keep(); draw(); }));
      const picture = h("div", { className: "panels one" });
      fill(place, controls, picture, differences(one, other, view.all));
      if (!metric) return fill(picture, h("p", { className: "muted" }, "These two recorded nothing in common."));
      const { series } = await ask("curves", { series: `${view.a};${view.b}`, metric, axis: view.axis, width: 600 });
      chart(picture, { title: metric.replaceAll("_", " "), file: "two runs", xLabel: AXES[view.axis], yLabel: metric.replaceAll("_", " "), height: 300,
        lines: series.map((each, i) => ({ label: [one, other][i].name, colour: colourOf(null, i), x: each[view.axis], mean: each.mean })) });
    } catch (error) {
      fill(place, h("p", { className: "fault" }, error.message));
    }
  }

  fill(root, h("div", { className: "lead" }, h("h1", {}, "Two runs side by side")), names, h("div", { className: "controls" }, field("a"), field("b")), place);
  await draw();
  return {};
}

function arm(cell) {
  const [study = "", name = ""] = cell.users.find(([, , use]) => use === "claim") ?? [];
  return `${study} ${name}`;
}

async function side(key) {
  const [cell, seed] = key.split(":");
  const made = await ask("runs", { cell });
  const run = made.runs.find((each) => String(each.seed) === seed) ?? made.runs[0];
  return { key, made, run, name: `${cell.slice(0, 6)} seed ${run.seed}` };
}

function differences(one, other, all) {
  const names = [...new Set([...Object.keys(one.made.settings), ...Object.keys(other.made.settings)])];
  const differs = (name) => JSON.stringify(one.made.settings[name]) !== JSON.stringify(other.made.settings[name]);
  const shown = names.filter((name) => all || differs(name));
  const lasts = [...new Set([...Object.keys(one.run.last), ...Object.keys(other.run.last)])];
  const head = (i) => h("th", { scope: "col" }, h("i", { className: "swatch", style: { background: colourOf(null, i) } }), [one, other][i].name);
  return h("div", { className: "scroll" }, h("table", { className: "settings two" },
    h("thead", {}, h("tr", {}, h("th", {}, ""), head(0), head(1))),
    h("tbody", {}, h("tr", { className: "part" }, h("th", { colSpan: 3 }, shown.length ? "settings that differ" : "the same settings")),
      shown.map((name) => h("tr", { className: differs(name) ? "differs" : "" }, h("th", { scope: "row" }, name), h("td", {}, show(one.made.settings[name])), h("td", {}, show(other.made.settings[name])))),
      h("tr", { className: "part" }, h("th", { colSpan: 3 }, "last values")),
      h("tr", {}, h("th", { scope: "row" }, "ended"), h("td", {}, one.run.status), h("td", {}, other.run.status)),
      lasts.map((name) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { className: "num" }, number(one.run.last[name], 4)), h("td", { className: "num" }, number(other.run.last[name], 4)))))));
}
