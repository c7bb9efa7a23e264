// The colours of arms, legible on either ground.

const CYCLE = ["#0072B2", "#D55E00", "#E69F00", "#CC79A7", "#009E73", "#56B4E9", "#332288", "#888888"];

export function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

export function colourOf(colour, place) {
  const named = colour ?? CYCLE[place % CYCLE.length];
  return isDark() ? lightened(named) : named;
}

// Dark colours are lifted until they stand out from a dark ground; their hue stays.
function lightened(hex) {
  const channels = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
  const light = (list) => 0.2126 * list[0] ** 2.2 + 0.7152 * list[1] ** 2.2 + 0.0722 * list[2] ** 2.2;
  let mixed = channels;
  for (let share = 0; light(mixed) < 0.2 && share < 1; share += 0.05) mixed = channels.map((c) => c + (1 - c) * share);
  return `#${mixed.map((c) => Math.round(255 * c).toString(16).padStart(2, "0")).join("")}`;
}

export function faded(hex, alpha) {
  return `${hex}${Math.round(255 * alpha).toString(16).padStart(2, "0")}`;
}

// A ramp from pale to deep, as of viridis read backwards; value in [0, 1].
const RAMP = [[253, 231, 37], [94, 201, 98], [33, 145, 140], [59, 82, 139], [68, 1, 84]];

export function ramp(value) {
  const place = Math.min(Math.max(value, 0), 1) * (RAMP.length - 1);
  const left = Math.min(Math.floor(place), RAMP.length - 2);
  const mixed = RAMP[left].map((c, i) => Math.round(c + (place - left) * (RAMP[left + 1][i] - c)));
  return `rgb(${mixed.join(",")})`;
}

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
