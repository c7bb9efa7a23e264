// Where data come from: the server and its events, or, in an exported page, files beside it.

const site = window.HEADSTART_SITE;
export const isStatic = Boolean(site);
let token = sessionStorage.getItem("token") ?? "";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function setToken(word) {
  token = word;
  sessionStorage.setItem("token", word);
}

function headers() {
  return token ? { authorization: `Bearer ${token}` } : {};
}

export async function ask(name, parameters = {}) {
  if (isStatic) return fromFiles(name, parameters);
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  const response = await fetch(`api/${name}?${new URLSearchParams(given)}`, { headers: headers() });
  if (response.ok) return response.json();
  const text = await response.text();
  let said = text;
  try {
    said = JSON.parse(text).error ?? text;
  } catch {
    // plain words
  }
  throw new Refused(response.status, said.trim() || `the server answered ${response.status}`);
}

// An exported page has one file per answer, read as scripts: a browser lets a file read no other file otherwise.
const loading = new Map();

function file(path) {
  if (!loading.has(path)) {
    loading.set(path, new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `data/${path}.js`;
      script.onload = () => resolve(site.data[path]);
      script.onerror = () => reject(new Refused(404, `${path} was not exported`));
      document.head.append(script);
    }));
  }
  return loading.get(path);
}

async function fromFiles(name, parameters) {
  if (name === "scoreboard" || name === "cells") return file(name);
  if (name === "study") return file(`study/${site.names[parameters.name] ?? "none"}`);
  if (name === "computed") return (await file(`computed/${site.names[parameters.study]}`))[parameters.name];
  if (name === "runs") return file(`runs/${parameters.cell}`);
  if (name === "curves") {
    const made = await Promise.all(parameters.series.split(";").map(async (line) => {
      const known = (await file(`curves/${line.split(/[:,]/)[0]}`))[line];
      if (!known?.[parameters.metric]) throw new Refused(404, "this curve was not exported; serve the store: headstart ui");
      return known[parameters.metric];
    }));
    return { series: made };
  }
  if (name === "pair") {
    const pairs = await file(`pairs/${parameters.a.split(/[:,]/)[0]}`);
    const found = pairs[`${parameters.a};${parameters.b};${parameters.metric};${parameters.axis ?? "steps"}`];
    if (!found) throw new Refused(404, "only pairs that a claim compares were exported; serve the store: headstart ui");
    return found;
  }
  throw new Refused(404, `${name} was not exported`);
}

// What is training: sessions by name, as the events tell.
export const sessions = new Map();
const listeners = new Set();
let version = null;

export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(change) {
  for (const listener of [...listeners]) listener(change);
}

function blank(name) {
  return { name, about: {}, progress: {}, cells: {}, runs: {} };
}

function take(message) {
  const change = { store: false, live: false, records: [] };
  if (message.sessions) {
    sessions.clear();
    for (const each of message.sessions) sessions.set(each.name, each);
    change.live = true;
  }
  if (message.version !== undefined) {
    change.store = version !== null && version !== message.version;
    version = message.version;
  }
  for (const each of message.news ?? []) {
    change.live = true;
    if (each.over) {
      sessions.delete(each.session);
      continue;
    }
    if (each.anew || !sessions.has(each.session)) sessions.set(each.session, blank(each.session));
    const session = sessions.get(each.session);
    if (each.about) session.about = each.about;
    if (each.progress) session.progress = each.progress;
    if (each.cell) session.cells[each.cell.cell] = each.cell;
    for (const run of each.begun ?? []) session.runs[run] = [];
    for (const run of each.ended ?? []) delete session.runs[run];
    if (each.record) {
      const [run, ...row] = each.record;
      (session.runs[run] ??= []).push(row);
      change.records.push(each.record);
    }
  }
  tell(change);
}

// EventSource cannot send a token, so the stream is read by hand; after a fault it begins again.
export async function listen() {
  if (isStatic) return;
  for (let wait = 500; ; wait = Math.min(2 * wait, 10000)) {
    try {
      const response = await fetch("events", { headers: headers() });
      if (response.status === 401) return;
      if (!response.ok) throw new Error(String(response.status));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      document.body.dataset.connected = "yes";
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value.replaceAll("\r", "");
        const parts = text.split("\n\n");
        text = parts.pop();
        for (const part of parts) {
          const data = part.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("");
          if (data) take(JSON.parse(data));
        }
        wait = 500;
      }
    } catch {
      // the server is gone for now
    }
    document.body.dataset.connected = "no";
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
