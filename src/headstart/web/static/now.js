// What is training now: how far it is, how long it takes still, and the curves of runs under way.

import { h, fill, plural, duration, choice, AXES } from "./dom.js";
import { isStatic, sessions, subscribe } from "./data.js";
import { address, read, remember } from "./route.js";
import { chart } from "./chart.js";
import { colourOf } from "./colours.js";

const MOST_LINES = 64;

export async function now(root) {
  const view = { axis: read().params.get("axis") ?? "steps" };
  const list = h("div", { className: "sessions" });
  const shown = new Map();
  const axis = choice("axis", [["steps", "steps"], ["samples", "samples"], ["flops", "FLOPs"]], view.axis, (value) => {
    view.axis = value;
    remember({ axis: value === "steps" ? "" : value });
    draw();
  });
  fill(root, h("div", { className: "lead" }, h("h1", {}, "Training now")), list);

  function draw() {
    for (const [name, each] of shown) {
      if (sessions.has(name)) continue;
      each.chart?.destroy();
      each.box.remove();
      shown.delete(name);
    }
    if (!sessions.size) {
      fill(list, h("p", { className: "nothing" }, isStatic ? "This page was exported; it shows what was stored then." : "Nothing is training into this store. The page shows it as soon as something is."));
      return;
    }
    if (list.querySelector(".nothing")) fill(list);
    for (const session of sessions.values()) {
      if (!shown.has(session.name)) shown.set(session.name, make(session));
      update(session, shown.get(session.name));
    }
  }

  function make() {
    const box = h("section", { className: "session" });
    const head = h("div", {});
    const picture = h("div", { className: "panels one" });
    const legend = h("div", { className: "legend" });
    box.append(head, h("div", { className: "controls" }, axis), picture, legend);
    list.append(box);
    return { box, head, picture, legend, chart: null };
  }

  function update(session, place) {
    const { about, progress } = session;
    const share = progress.total > 0 ? Math.min(progress.done / progress.total, 1) : 0;
    const spent = (progress.at ?? 0) - (progress.began ?? progress.at ?? 0);
    const left = share > 0.01 ? (spent * (1 - share)) / share : NaN;
    fill(place.head,
      h("h2", {}, h("a", { href: address("study", about.study ?? "") }, about.study ?? "a study")),
      h("p", { className: "about" }, `preset ${about.preset ?? "?"} · ${progress.title ?? "starting"}`),
      h("progress", { max: 1, value: share, "aria-label": "progress" }),
      h("p", { className: "about" }, `${Math.floor(100 * share)}% · ${progress.text ?? ""}${Number.isFinite(left) ? ` · about ${duration(left)} left` : ""} · ${plural(Object.keys(session.runs).length, "run")} under way`));
    const arms = [...new Set(Object.values(session.cells).map((cell) => cell.arm ?? "source"))];
    const column = { steps: 0, samples: 1, flops: 2 }[view.axis];
    const going = Object.entries(session.runs).filter(([, records]) => records.length).slice(0, MOST_LINES);
    if (!going.length) return;
    const metric = Object.keys(going[0][1][0][3])[0];
    const lines = going.map(([run, records]) => {
      const cell = session.cells[run.split(":")[0]];
      const arm = cell?.arm ?? "source";
      return { label: `${about.labels?.[arm] ?? arm}, seed ${run.split(":")[1]}`, arm, colour: colourOf(null, Math.max(arms.indexOf(arm), 0)), width: 1.4,
        x: records.map((record) => record[column]), mean: records.map((record) => record[3][metric] ?? null) };
    });
    const options = { title: `Runs under way: ${metric.replaceAll("_", " ")}`, lines, xLabel: AXES[view.axis], yLabel: metric.replaceAll("_", " "), height: 300, bands: false };
    if (place.chart) place.chart.update(options);
    else place.chart = chart(place.picture, options);
    const used = [...new Set(lines.map((line) => line.arm))];
    fill(place.legend, used.map((arm) => h("span", { className: "arm still" }, h("i", { style: { background: lines.find((line) => line.arm === arm).colour } }), `${about.labels?.[arm] ?? arm} (${arm})`)));
    place.box.dataset.records = going.reduce((sum, [, records]) => sum + records.length, 0);
  }

  draw();
  const stop = subscribe((change) => change.live && draw());
  return { stop };
}
