// Lines with bands, drawn by uPlot: our data in, our colours, a readout under the pointer.

import { h, number } from "./dom.js";
import { css, faded } from "./colours.js";
import { buttons, csvOf, drawing } from "./picture.js";

// lines: [{ label, colour, x, mean, low, high, dash, width }]; marks: [{ x, colour, text }]; levels: [{ y, text }]
export function chart(place, options) {
  const frame = h("figure", { className: "chart" });
  const head = h("figcaption", {}, h("span", { className: "title" }, options.title ?? ""));
  const canvas = h("div", { className: "canvas", role: "img", "aria-label": options.title ?? "curves" });
  const readout = h("div", { className: "readout", "aria-live": "off" });
  const shown = { ...options };
  let plot = null;
  let zoom = options.range ?? null;
  head.append(buttons(options.file ?? options.title ?? "curves", {
    csv: () => table(shown),
    svg: () => drawing({ ...shown, range: zoom }),
  }));
  frame.append(head, canvas, readout);
  place.append(frame);

  function make() {
    plot?.destroy();
    const data = join(shown);
    plot = new uPlot(settings(), data, canvas);
    frame.dataset.points = data[0].length;
  }

  function settings() {
    const ink = css("--muted");
    const grid = { stroke: css("--line"), width: 1 };
    const font = `11px ${css("--sans")}`;
    const axis = (label, log, size) => ({
      stroke: ink, grid, ticks: { show: false }, font, labelFont: font, label, labelSize: 16, labelGap: 0, gap: 5, size,
      values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick))),
      ...(log ? {} : { space: 56 }),
    });
    return {
      width: Math.max(canvas.clientWidth || 300, 120),
      height: shown.height ?? 260,
      padding: [10, 12, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: Boolean(shown.onzoom), y: false, setScale: false }, points: { show: false }, y: false },
      select: { show: true },
      scales: {
        x: { time: false, distr: shown.logX ? 3 : 1, range: zoom ? () => zoom : shown.logX ? undefined : (_, low, high) => [low, high] },
        y: { distr: shown.logY ? 3 : 1, range: shown.yRange },
      },
      axes: [axis(shown.xLabel, shown.logX, 26), axis(shown.yLabel, shown.logY, 52)],
      series: [{}, ...shown.lines.flatMap((line) => [
        { stroke: line.colour, width: line.width ?? 2, dash: line.dash, spanGaps: true, points: { show: line.mean.length < 2 } },
        { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } },
        { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } },
      ])],
      bands: shown.lines.flatMap((line, i) => (shown.bands !== false && line.low ? [{ series: [3 * i + 3, 3 * i + 2], fill: faded(line.colour, 0.18) }] : [])),
      hooks: {
        draw: [overlay],
        setCursor: [point],
        setSelect: [(u) => {
          if (u.select.width < 4) return;
          zoom = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
          u.setSelect({ width: 0, height: 0 }, false);
          make();
          shown.onzoom?.(zoom);
        }],
      },
    };
  }

  function overlay(u) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    for (const mark of shown.marks ?? []) {
      if (shown.logX && mark.x <= 0) continue;
      const x = Math.round(u.valToPos(mark.x, "x", true)) + 0.5;
      if (x < left || x > left + width) continue;
      ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.strokeStyle = mark.colour;
      line(ctx, x, top, x, top + height);
    }
    for (const level of shown.levels ?? []) {
      const y = Math.round(u.valToPos(level.y, "y", true)) + 0.5;
      if (!(y >= top && y <= top + height)) continue;
      ctx.setLineDash([1.5 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.strokeStyle = css("--ink");
      line(ctx, left, y, left + width, y);
      ctx.setLineDash([]);
      ctx.fillStyle = css("--muted");
      ctx.font = `${10 * devicePixelRatio}px ${css("--sans")}`;
      ctx.textAlign = "right";
      ctx.fillText(level.text ?? "", left + width - 4 * devicePixelRatio, y - 4 * devicePixelRatio);
    }
    ctx.restore();
  }

  function point(u) {
    const { left } = u.cursor;
    if (left < 0) {
      readout.replaceChildren();
      return;
    }
    const x = u.posToVal(left, "x");
    readout.replaceChildren(h("b", {}, `${number(x)} ${shown.xLabel ?? ""}`), ...shown.lines.flatMap((each) => {
      const at = nearest(each.x, x);
      if (at < 0 || each.mean[at] === null) return [];
      const band = each.low && each.low[at] !== each.high[at] ? ` [${number(each.low[at])}, ${number(each.high[at])}]` : "";
      return [h("span", {}, h("i", { style: { background: each.colour } }), `${each.label} ${number(each.mean[at])}${band}`)];
    }));
  }

  canvas.addEventListener("dblclick", () => {
    zoom = null;
    make();
    shown.onzoom?.(null);
  });
  const watch = new ResizeObserver(() => {
    const width = canvas.clientWidth;
    if (plot && width > 0 && Math.abs(width - plot.width) > 1) plot.setSize({ width, height: shown.height ?? 260 });
  });
  make();
  watch.observe(canvas);
  return {
    frame,
    update(change) {
      Object.assign(shown, change);
      if ("range" in change) zoom = change.range;
      make();
    },
    destroy() {
      watch.disconnect();
      plot?.destroy();
      frame.remove();
    },
  };
}

function line(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

function nearest(list, x) {
  let low = 0;
  let high = list.length - 1;
  if (high < 0) return -1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (list[middle] < x) low = middle;
    else high = middle;
  }
  return Math.abs(list[low] - x) <= Math.abs(list[high] - x) ? low : high;
}

// One table with the x of all lines; where the scale is logarithmic, what has no logarithm is left out.
function join(shown) {
  const positive = (value) => value !== null && value > 0;
  const tables = shown.lines.map((each) => {
    const keep = each.x.map((x, i) => (!shown.logX || x > 0) && (i === 0 || x > each.x[i - 1]));
    const pick = (list) => (list ?? each.mean).filter((_, i) => keep[i]).map((v) => (shown.logY && !positive(v) ? null : v));
    return [each.x.filter((_, i) => keep[i]), pick(each.mean), pick(each.low), pick(each.high)];
  });
  return tables.length ? uPlot.join(tables) : [[]];
}

function table(shown) {
  const rows = shown.lines.flatMap((each) => each.x.map((x, i) =>
    [each.label, x, each.mean[i], each.low ? each.low[i] : null, each.high ? each.high[i] : null]));
  return csvOf(["line", shown.xLabel ?? "x", shown.yLabel ?? "y", "low", "high"], rows);
}
