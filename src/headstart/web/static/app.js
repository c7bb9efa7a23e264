// The shell: which view, light or dark, keys, and what the events mean for the view that is open.

import { h, fill, debounce } from "./dom.js";
import { Refused, listen, sessions, setToken, subscribe } from "./data.js";
import { read } from "./route.js";
import { scoreboard } from "./scoreboard.js";
import { study } from "./study.js";
import { cellRuns, explorer } from "./explorer.js";
import { compare } from "./compare.js";
import { now } from "./now.js";

const VIEWS = [["", "Claims"], ["cells", "Runs"], ["compare", "Compare"], ["now", "Training now"]];
const KEYS = [["1 – 4", "the views"], ["/", "search"], ["j, k", "next, previous study or row"], ["Enter", "open it"], ["t", "light or dark"], ["?", "these keys"], ["Esc", "close, leave a field"]];
const main = document.getElementById("main");
let open = {};
let turn = 0;

const DRAW = { "": scoreboard, study, cells: explorer, runs: cellRuns, compare, now };

async function draw() {
  const mine = ++turn;
  open.stop?.();
  open = {};
  const { view, rest } = read();
  for (const link of document.querySelectorAll("#nav a")) {
    const current = link.dataset.view === view || (link.dataset.view === "cells" && view === "runs") || (link.dataset.view === "" && view === "study");
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const place = h("div", { className: `view view-${view || "claims"}` });
  try {
    if (!(view in DRAW)) throw new Refused(404, `There is no view ${view}.`);
    const slow = setTimeout(() => mine === turn && !main.querySelector(".view") && fill(main, h("p", { className: "nothing" }, "reading …")), 250);
    const shown = fill(main, place) && (await DRAW[view](place, rest));
    clearTimeout(slow);
    if (mine !== turn) {
      shown?.stop?.();
      return;
    }
    open = shown ?? {};
    document.title = `${main.querySelector("h1")?.textContent ?? "Headstart"} · Headstart`;
    document.body.dataset.drawn = String(mine);
  } catch (error) {
    if (mine !== turn) return;
    if (error instanceof Refused && error.status === 401) askToken();
    else fill(main, h("div", { className: "nothing" }, h("h1", {}, "This cannot be shown"), h("p", {}, error.message), h("p", {}, h("a", { href: "#/" }, "To the claims"))));
    document.body.dataset.drawn = String(mine);
    if (!(error instanceof Refused)) throw error;
  }
}

function askToken() {
  const field = h("input", { type: "password", "aria-label": "token", autocomplete: "off" });
  const form = h("form", { className: "nothing", onsubmit: (event) => {
    event.preventDefault();
    setToken(field.value);
    listen();
    draw();
  } }, h("h1", {}, "Token"), h("p", {}, "This page was started with --token. What is it?"), field, h("button", { type: "submit" }, "Open"));
  fill(main, form);
  field.focus();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "☀" : "☾";
}

function switchTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // a page from disk may have no storage
  }
  setTheme(theme);
  draw();
}

function step(by) {
  const stops = [...main.querySelectorAll("a.stop, .claim.goes, table.cells tbody tr input, .view-compare input")].filter((each) => each.offsetParent);
  const at = stops.indexOf(document.activeElement);
  const next = stops[Math.min(Math.max(at + by, 0), stops.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function onkey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    if (event.target.type !== "checkbox") return;
  }
  const number = Number(event.key);
  if (number >= 1 && number <= VIEWS.length) location.hash = `#/${VIEWS[number - 1][0]}`;
  else if (event.key === "/") (open.search ?? main.querySelector("input[type=search]"))?.focus();
  else if (event.key === "t") switchTheme();
  else if (event.key === "?") document.getElementById("keys").showModal();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else return;
  event.preventDefault();
}

function pulse() {
  const place = document.getElementById("pulse");
  place.hidden = !sessions.size;
  const [first] = sessions.values();
  if (!first) return;
  const { progress, about } = first;
  const share = progress.total > 0 ? Math.min(progress.done / progress.total, 1) : 0;
  fill(place, h("i"), `${about.study ?? ""} ${Math.floor(100 * share)}%`);
}

let stored = null;
try {
  stored = localStorage.getItem("theme");
} catch {
  // no storage
}
setTheme(stored ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
fill(document.getElementById("nav"), VIEWS.map(([view, text], i) => h("a", { href: `#/${view}`, title: `key ${i + 1}`, "data-view": view }, text)));
fill(document.getElementById("keys"), h("h2", {}, "Keys"), h("dl", {}, KEYS.map(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])),
  h("form", { method: "dialog" }, h("button", {}, "Close")));
document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
document.addEventListener("keydown", onkey);
window.addEventListener("hashchange", draw);
const refresh = debounce(() => open.refresh?.(), 300);
subscribe((change) => {
  if (change.live) pulse();
  if (change.store) refresh();
});
draw();
listen();
