// Intervals on one axis for all claims: linear near 0, logarithmic beyond, so that ratios and differences share it.

import { h, number } from "./dom.js";

const NEAR = 0.1;
const FAR = 100;

export function place(value) {
  const bounded = Math.min(Math.max(value, -FAR), FAR);
  return Math.sign(bounded) * Math.log10(1 + Math.abs(bounded) / NEAR);
}

export function axisOf(claims) {
  const ends = claims.flatMap((claim) => [claim.estimate, claim.low, claim.high]).filter((value) => Number.isFinite(value));
  const low = Math.min(0, ...ends.map(place));
  const high = Math.max(place(1), ...ends.map(place));
  const pad = 0.04 * (high - low);
  const span = [low - pad, high + pad];
  const at = (value) => (100 * (place(value) - span[0])) / (span[1] - span[0]);
  const all = [-100, -10, -1, -0.1, 0, 0.1, 1, 10, 100];
  const ticks = all.filter((tick) => at(tick) >= 0 && at(tick) <= 100 && (Math.abs(tick) !== 0.1 || high - low < 3));
  return { at, ticks };
}

export function scale(axis) {
  return h("div", { className: "scale", "aria-hidden": "true" }, axis.ticks.map((tick) =>
    h("span", { style: { left: `${axis.at(tick)}%` } }, number(tick))));
}

export function interval(claim, axis) {
  const has = Number.isFinite(claim.low) || Number.isFinite(claim.high) || Number.isFinite(claim.estimate);
  const left = Number.isFinite(claim.low) ? axis.at(claim.low) : 0;
  const right = Number.isFinite(claim.high) ? axis.at(claim.high) : 100;
  const open = `${Number.isFinite(claim.low) ? "" : " open-left"}${Number.isFinite(claim.high) ? "" : " open-right"}`;
  return h("div", { className: `interval v-${claim.verdict.replaceAll(" ", "-")}`, role: "img", "aria-label": claim.interval },
    axis.ticks.map((tick) => h("i", { className: tick === 0 || tick === 1 ? "tick strong" : "tick", style: { left: `${axis.at(tick)}%` } })),
    has && h("i", { className: `bar${open}`, style: { left: `${left}%`, width: `${Math.max(right - left, 0.6)}%` } }),
    Number.isFinite(claim.estimate) && h("i", { className: "dot", style: { left: `${axis.at(claim.estimate)}%` } }));
}
