// One study: its finding, its curves, what its claims compare, and how its settings were chosen.

import { h, fill, number, plural, choice, toggle, select, AXES } from "./dom.js";
import { ask, sessions, subscribe } from "./data.js";
import { address, read, remember } from "./route.js";
import { axisOf, scale } from "./intervals.js";
import { chart } from "./chart.js";
import { heatmap } from "./heatmap.js";
import { colourOf } from "./colours.js";
import { row } from "./scoreboard.js";
import { sweeps } from "./sweeps.js";

export async function study(root, name) {
  const { params } = read();
  let report = await ask("study", { name, preset: params.get("preset") });
  const view = {
    axis: params.get("axis") ?? "steps",
    metric: params.get("metric") ?? "",
    logX: params.get("logx") === "1",
    logY: params.get("logy") === "1",
    bands: params.get("bands") !== "0",
    off: new Set((params.get("off") ?? "").split(",").filter(Boolean)),
    pair: (params.get("pair") ?? "").split(","),
    zoom: zoomOf(params.get("zoom")),
  };
  const charts = h("div", { className: "panels" });
  const beside = h("div", { className: "panels two" });
  let drawn = [];

  const keep = () => remember({
    axis: view.axis === "steps" ? "" : view.axis, metric: view.metric, logx: view.logX ? "1" : "", logy: view.logY ? "1" : "",
    bands: view.bands ? "" : "0", off: [...view.off].join(","), pair: view.pair.filter(Boolean).join(","),
    zoom: view.zoom ? view.zoom.map((end) => Number(end.toPrecision(6))).join(",") : "",
  });

  const arms = () => Object.entries(report.arms).map(([key, arm], place) => ({ ...arm, key, tint: colourOf(arm.colour, place) }));
  const metrics = () => [...new Set(arms().flatMap((arm) => arm.records))];
  const metricOf = (arm) => view.metric || leading(arm);

  async function drawCurves() {
    for (const each of drawn) each.destroy();
    drawn = [];
    const groups = panelsOf(arms().filter((arm) => arm.records.length), report);
    charts.classList.toggle("one", groups.length === 1);
    const made = await Promise.all(groups.map(async (group) => ({ group, lines: await linesOf(group.arms) })));
    fill(charts);
    for (const { group, lines } of made) drawn.push(panel(group, lines));
    charts.dataset.ready = "yes";
  }

  async function linesOf(group, zoom = view.zoom) {
    const on = group.filter((arm) => !view.off.has(arm.key) && arm.records.includes(metricOf(arm)));
    const byMetric = grouped(on, metricOf);
    const lines = new Map();
    for (const [metric, members] of byMetric) {
      const asked = { series: members.map((arm) => arm.series).join(";"), metric, axis: view.axis, width: 300, log: view.logX ? 1 : 0, from: zoom?.[0], to: zoom?.[1] };
      asked.chance = members.map((arm) => (metric === leading(arm) ? arm.metric.chance ?? "" : "")).join(";");
      const { series } = await ask("curves", asked);
      members.forEach((arm, i) => lines.set(arm.key, lineOf(arm, series[i])));
    }
    return on.map((arm) => lines.get(arm.key)).filter(Boolean);
  }

  const lineOf = (arm, made) => ({ label: arm.label, colour: arm.tint, x: made[view.axis], steps: made.steps, mean: made.mean, low: made.low, high: made.high, arm });

  function panel(group, lines) {
    const place = h("div", { className: "panel" });
    charts.append(place);
    const metric = metricOf(group.arms[0]);
    const made = chart(place, {
      title: group.title, file: `${name}-${group.title}`, lines, xLabel: AXES[view.axis], yLabel: metricLabel(group.arms[0], metric), logX: view.logX, logY: view.logY, bands: view.bands,
      marks: lines.flatMap((line) => line.arm.phases.map((step) => ({ x: convert(step, line.steps, line.x), colour: line.colour }))),
      levels: view.metric && view.metric !== leading(group.arms[0]) ? [] : group.targets.map((target) => ({ y: target, text: `target ${number(target)}` })),
      range: view.zoom,
      height: 250,
      onzoom: async (zoom) => {
        view.zoom = zoom;
        keep();
        if (zoom === null) return drawCurves();
        made.update({ lines: await linesOf(group.arms, zoom), range: zoom });
      },
    });
    place.append(h("div", { className: "legend" }, group.arms.map((arm) => armToggle(arm))));
    made.group = group;
    made.lines = lines;
    return made;
  }

  function armToggle(arm) {
    const made = toggle([h("i", { style: { background: arm.tint } }), arm.label, h("small", {}, `${arm.seeds}`)], !view.off.has(arm.key), (on) => {
      if (on) view.off.delete(arm.key);
      else view.off.add(arm.key);
      keep();
      drawCurves();
    }, `${arm.key}: ${plural(arm.seeds, "seed")}`);
    made.classList.add("arm");
    made.dataset.arm = arm.key;
    return made;
  }

  async function drawPair() {
    const all = arms().filter((arm) => arm.records.length);
    if (all.length < 2) return fill(beside);
    const first = report.claims.map((claim) => claim.contrast?.arms).find((pair) => pair?.length === 2 && pair.every((key) => all.some((arm) => arm.key === key)));
    const keys = view.pair.length === 2 && view.pair.every((key) => all.some((arm) => arm.key === key)) ? view.pair : first ?? [all[0].key, all[1].key];
    const [one, other] = keys.map((key) => all.find((arm) => arm.key === key));
    const options = all.map((arm) => [arm.key, `${arm.label} (${arm.key})`]);
    const pick = (place) => (value) => {
      view.pair = keys.map((key, i) => (i === place ? value : key));
      keep();
      drawPair();
    };
    const controls = h("div", { className: "controls" }, select("of", options, keys[0], pick(0)), select("beside", options, keys[1], pick(1)));
    const metric = one.records.includes(metricOf(one)) && other.records.includes(metricOf(one)) ? metricOf(one) : leading(one);
    let made;
    try {
      const higher = metric === leading(one) ? one.metric.higher_is_better !== false : !metric.includes("loss");
      made = await ask("pair", { a: one.series, b: other.series, metric, axis: view.axis, width: 300, log: view.logX ? 1 : 0, chance: metric === leading(one) ? one.metric.chance : undefined, higher: higher ? 1 : 0 });
    } catch (error) {
      return fill(beside, controls, h("p", { className: "muted" }, error.message));
    }
    fill(beside, controls);
    const gap = made.difference;
    const fast = made.speed_up;
    const said = metricLabel(one, metric);
    const left = h("div", { className: "panel" });
    const right = h("div", { className: "panel" });
    beside.append(left, right);
    chart(left, { title: `${one.label} less ${other.label}, paired over ${plural(gap.seeds, "seed")}`, file: `${name}-difference`, xLabel: AXES[view.axis], yLabel: `difference of ${said}`, logX: view.logX, height: 220, bands: view.bands, levels: [{ y: 0, text: "" }],
      lines: [{ label: "difference", colour: one.tint, x: gap.x, mean: gap.mean, low: gap.low, high: gap.high }] });
    if (fast.target.length) {
      const order = fast.target.map((_, i) => i).sort((a, b) => fast.target[a] - fast.target[b]);
      const pickAll = (list) => order.map((i) => list[i]);
      chart(right, { title: `Speed-up: time of ${other.label} over that of ${one.label}`, file: `${name}-speed-up`, xLabel: `target, ${said}`, yLabel: `ratio of ${AXES[view.axis]}`, height: 220, bands: view.bands, levels: [{ y: 1, text: "as fast" }],
        lines: [{ label: "speed-up", colour: one.tint, x: pickAll(fast.target), mean: pickAll(fast.ratio), low: pickAll(fast.low), high: pickAll(fast.high) }] });
    } else {
      right.append(h("p", { className: "muted" }, "No speed-up to show: fewer than half of the runs of one side get beyond where they start."));
    }
  }

  // What is training now of this study: thin dashed lines, moved by events.
  let timer = 0;
  function live() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const rows = liveLines(arms(), name, view.axis, metricOf);
      for (const each of drawn) {
        const own = rows.filter((line) => each.group.arms.some((arm) => arm.key === line.arm.key) && !view.off.has(line.arm.key));
        if (own.length || each.hasLive) {
          each.hasLive = own.length > 0;
          each.update({ lines: [...each.lines, ...own] });
        }
      }
    }, 60);
  }

  function header() {
    const shown = report.presets.length > 1
      ? select("preset", report.presets.map((preset) => [preset, preset]), report.preset, (value) => { location.hash = address("study", name, { preset: value }); })
      : `preset ${report.preset}`;
    return h("div", { className: "lead" },
      h("p", { className: "crumb" }, h("a", { href: "#/" }, "Claims"), " / ", report.paper, report.figures && `, ${report.figures}`),
      h("h1", {}, report.title ?? name),
      report.finding && h("p", { className: "finding large" }, report.finding),
      h("p", { className: "about" }, shown, ` · ${plural(report.seeds ?? 0, "seed")} · ${number(report.minutes ?? NaN)} min on ${report.machine ?? "?"} · commit ${report.commit ?? "?"}`,
        report.preset === "smoke" && h("b", {}, " · smoke settings only exercise the machinery")));
  }

  function claims() {
    const axis = axisOf(report.claims);
    const primary = report.claims.filter((claim) => claim.kind === "primary");
    const [first, others] = primary.length ? [primary, report.claims.filter((claim) => claim.kind !== "primary")] : [report.claims, []];
    const line = (claim) => {
      const made = row(claim, axis);
      if (claim.contrast?.arms?.length === 2) {
        made.classList.add("goes");
        made.tabIndex = 0;
        const go = () => {
          view.pair = claim.contrast.arms;
          keep();
          drawPair().then(() => beside.scrollIntoView({ behavior: "smooth", block: "center" }));
        };
        made.addEventListener("click", go);
        made.addEventListener("keydown", (event) => event.key === "Enter" && go());
      }
      return made;
    };
    return h("div", { className: "claims", role: "table" },
      h("div", { className: "claim head", "aria-hidden": "true" }, h("span", {}, "verdict"), h("span", {}, "claim"), scale(axis), h("span", {}, "ours"), h("span", {}, "paper"), h("span", {}, "kind")),
      first.map(line), others.length ? h("details", {}, h("summary", {}, plural(others.length, "other claim")), others.map(line)) : null);
  }

  const all = arms();
  const redraw = () => { keep(); drawCurves(); drawPair(); };
  const change = (patch) => { Object.assign(view, patch); redraw(); };
  const sections = [header(), claims()];
  if (all.some((arm) => arm.records.length)) {
    sections.push(h("div", { className: "controls sticky" },
      choice("axis", [["steps", "steps"], ["samples", "samples"], ["flops", "FLOPs"]], view.axis, (axis) => change({ axis, zoom: null })),
      select("curve", [["", "leading metric"], ...metrics().map((metric) => [metric, metric.replaceAll("_", " ")])], view.metric, (metric) => change({ metric })),
      toggle("log x", view.logX, (logX) => change({ logX, zoom: null })),
      toggle("log y", view.logY, (logY) => change({ logY })),
      toggle("bands", view.bands, (bands) => change({ bands }), "95% bands of the mean over seeds"),
      h("span", { className: "muted hint" }, "drag to zoom, double-click to reset")), charts, h("h2", {}, "Two arms"), beside);
  }
  const chosen = h("div", { className: "panels" });
  const computed = h("div", { className: "panels" });
  fill(root, sections, chosen, computed);
  if (sweeps(chosen, report, all)) chosen.before(h("h2", {}, "How settings were chosen"));
  drawComputed(computed, name, report);
  await drawCurves();
  drawPair();
  live();
  const stop = subscribe((change) => {
    if (change.live) live();
  });
  return {
    stop() {
      stop();
      clearTimeout(timer);
    },
    async refresh() {
      const fresh = await ask("study", { name, preset: read().params.get("preset") });
      if (JSON.stringify(fresh) !== JSON.stringify(report)) {
        report = fresh;
        await study(root, name);
      }
    },
  };
}

async function drawComputed(place, name, report) {
  for (const part of Object.keys(report.computed ?? {}).slice(0, 24)) {
    let made;
    try {
      made = await ask("computed", { study: name, name: part });
    } catch {
      continue;
    }
    for (const [key, array] of Object.entries(made.arrays)) {
      if (array.shape.length === 2 && array.shape[0] > 1 && array.shape[1] > 1) {
        if (!place.childElementCount) place.before(h("h2", {}, "Computed"));
        const box = h("div", { className: "panel" });
        place.append(box);
        const index = (length) => [...Array(length).keys()];
        heatmap(box, { title: `${part}: ${key}`, values: array.values, xs: index(array.values[0].length), ys: index(array.values.length), xLabel: "column", yLabel: "row", note: `${array.shape.join(" × ")} numbers` });
      }
    }
  }
}

export function liveLines(arms, name, axis, metricOf) {
  const column = { steps: 0, samples: 1, flops: 2 }[axis];
  const rows = [];
  for (const session of sessions.values()) {
    if (session.about.study !== name) continue;
    for (const [run, records] of Object.entries(session.runs)) {
      const arm = arms.find((each) => each.key === session.cells[run.split(":")[0]]?.arm);
      const metric = arm && metricOf(arm);
      if (!arm || !records.length || !(metric in records[0][3])) continue;
      rows.push({ label: `${arm.label}, seed ${run.split(":")[1]} now`, colour: arm.tint, width: 1, dash: [4, 3], arm,
        x: records.map((record) => record[column]), steps: records.map((record) => record[0]), mean: records.map((record) => record[3][metric]) });
    }
  }
  return rows.slice(0, 64);
}

export function leading(arm) {
  const named = arm.metric?.name && `test_${arm.metric.name}`;
  return arm.records.includes(named) ? named : arm.records.find((record) => record.startsWith("test_")) ?? arm.records[0];
}

function metricLabel(arm, metric) {
  return metric === leading(arm) && arm.metric?.label ? arm.metric.label : metric.replaceAll("_", " ");
}

function convert(step, steps, x) {
  const at = steps.findIndex((each) => each >= step);
  if (at <= 0) return at === 0 ? x[0] : NaN;
  return x[at - 1] + ((step - steps[at - 1]) / (steps[at] - steps[at - 1])) * (x[at] - x[at - 1]);
}

function zoomOf(text) {
  const ends = (text ?? "").split(",").map(Number);
  return ends.length === 2 && ends.every(Number.isFinite) && ends[1] > ends[0] ? ends : null;
}

function grouped(list, key) {
  const out = new Map();
  for (const each of list) out.set(key(each), [...(out.get(key(each)) ?? []), each]);
  return out;
}

// Arms that a claim compares share a panel; those that none does are together.
function panelsOf(arms, report) {
  const group = new Map(arms.map((arm) => [arm.key, arm.key]));
  const find = (key) => (group.get(key) === key ? key : find(group.get(key)));
  for (const claim of report.claims) {
    const own = (claim.contrast?.arms ?? []).filter((key) => group.has(key));
    for (const key of own.slice(1)) group.set(find(key), find(own[0]));
  }
  const alone = arms.filter((arm) => arms.every((other) => other === arm || find(other.key) !== find(arm.key)));
  for (const like of grouped(alone, leading).values()) for (const arm of like.slice(1)) group.set(find(arm.key), find(like[0].key));
  const made = [...grouped(arms, (arm) => find(arm.key)).values()];
  return made.map((members) => {
    const keys = new Set(members.map((arm) => arm.key));
    const targets = report.claims.filter((claim) => claim.contrast?.arms.some((key) => keys.has(key)) && Number.isFinite(claim.contrast.target)).map((claim) => claim.contrast.target);
    return { arms: members, title: made.length === 1 ? "all arms" : prefix(members.map((arm) => arm.key)), targets: [...new Set(targets)].slice(0, 3) };
  });
}

function prefix(keys) {
  let shared = keys[0];
  for (const key of keys) while (!key.startsWith(shared)) shared = shared.slice(0, -1);
  if (keys.length > 1 && !keys.includes(shared)) shared = shared.replace(/[^_]*$/, "");
  return shared.replaceAll("_", " ").trim() || keys.slice(0, 3).join(", ").replaceAll("_", " ");
}
