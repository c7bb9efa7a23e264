// Papers and studies as a scoreboard of claims.

import { h, fill, number, plural, select, toggle, verdictMark, debounce, VERDICTS, KINDS } from "./dom.js";
import { ask } from "./data.js";
import { address, read, remember } from "./route.js";
import { axisOf, interval, scale } from "./intervals.js";
import { buttons, csvOf, forest } from "./picture.js";

export async function scoreboard(root) {
  let board = await ask("scoreboard");
  const { params } = read();
  const asked = {
    text: params.get("q") ?? "",
    verdicts: new Set((params.get("verdicts") ?? "").split(",").filter(Boolean)),
    kind: params.get("kind") ?? "",
    paper: params.get("paper") ?? "",
    preset: params.get("preset") ?? "",
  };
  const list = h("div", { className: "studies" });
  const summary = h("div", { className: "summary" });
  const keep = () => {
    remember({ q: asked.text, verdicts: [...asked.verdicts].join(","), kind: asked.kind, paper: asked.paper, preset: asked.preset });
    draw();
  };
  const search = h("input", {
    type: "search", className: "search", placeholder: "Search claims, studies, papers", value: asked.text, "aria-label": "search",
    oninput: debounce(() => { asked.text = search.value; keep(); }, 80),
  });

  function shown() {
    const words = asked.text.toLowerCase().split(/\s+/).filter(Boolean);
    const out = [];
    for (const study of board.studies) {
      if (asked.paper && study.paper !== asked.paper) continue;
      if (asked.preset && study.preset !== asked.preset) continue;
      const about = `${study.study} ${study.title} ${study.paper} ${study.figures}`.toLowerCase();
      const claims = study.claims.filter((claim) => {
        const text = `${about} ${claim.id} ${claim.statement} ${claim.paper} ${claim.kind} ${claim.verdict}`.toLowerCase();
        return (!asked.kind || claim.kind === asked.kind) && (!asked.verdicts.size || asked.verdicts.has(claim.verdict))
          && words.every((word) => text.includes(word));
      });
      if (claims.length) out.push({ ...study, claims });
    }
    return out;
  }

  function draw() {
    const studies = shown();
    const claims = studies.flatMap((study) => study.claims);
    fill(summary, tally(claims, asked, keep));
    if (!board.studies.length) {
      fill(list, empty(board));
      return;
    }
    const axis = axisOf(claims);
    const folded = !asked.text && !asked.verdicts.size && !asked.kind;
    const papers = [...new Set(studies.map((study) => study.paper))];
    fill(list,
      papers.map((paper) => h("section", { className: "paper" },
        h("h2", {}, paper ?? "Other"),
        studies.filter((study) => study.paper === paper).map((study) => block(study, axis, folded)))),
      !studies.length && h("p", { className: "nothing" }, "No claim is like that. ",
        h("button", { type: "button", className: "link", onclick: () => clear() }, "Show all claims")),
      board.refused.map((each) => h("p", { className: "fault" }, `${each.study} cannot be shown: ${each.why}`)));
    list.dataset.claims = claims.length;
  }

  function clear() {
    Object.assign(asked, { text: "", verdicts: new Set(), kind: "", paper: "", preset: "" });
    remember({ q: "", verdicts: "", kind: "", paper: "", preset: "" });
    scoreboard(root);
  }

  const papers = [...new Set(board.studies.map((study) => study.paper))].filter(Boolean);
  const presets = [...new Set(board.studies.map((study) => study.preset))];
  const kinds = KINDS.filter((kind) => board.studies.some((study) => study.claims.some((claim) => claim.kind === kind)));
  const tools = buttons("claims", {
    csv: () => csvOf(["paper", "study", "preset", "claim", "kind", "verdict", "estimate", "low", "high", "paper says", "statement"],
      shown().flatMap((s) => s.claims.map((c) => [s.paper, s.study, s.preset, c.id, c.kind, c.verdict, c.estimate, c.low, c.high, c.paper, c.statement]))),
    svg: () => forest(shown()),
  });
  fill(root,
    h("div", { className: "lead" }, h("h1", {}, "What the papers say, and what came out"), summary),
    h("div", { className: "controls" }, search,
      select("kind", [["", "all kinds"], ...kinds.map((kind) => [kind, kind])], asked.kind, (value) => { asked.kind = value; keep(); }),
      papers.length > 1 && select("paper", [["", "all papers"], ...papers.map((paper) => [paper, paper])], asked.paper, (value) => { asked.paper = value; keep(); }),
      presets.length > 1 && select("preset", [["", "all presets"], ...presets.map((preset) => [preset, preset])], asked.preset, (value) => { asked.preset = value; keep(); }),
      h("span", { className: "gap" }), tools),
    list);
  draw();
  return {
    search,
    async refresh() {
      board = await ask("scoreboard");
      draw();
    },
  };
}

function tally(claims, asked, keep) {
  const counts = VERDICTS.map((verdict) => [verdict, claims.filter((claim) => claim.verdict === verdict).length]);
  const primary = claims.filter((claim) => claim.kind === "primary").length;
  return [
    h("div", { className: "stack", "aria-hidden": "true" }, counts.filter(([, count]) => count).map(([verdict, count]) =>
      h("i", { className: `v-${verdict.replaceAll(" ", "-")}`, style: { flexGrow: count } }))),
    h("div", { className: "chips" }, counts.map(([verdict, count]) => {
      const chip = toggle([verdictMark(verdict), h("b", {}, count)], asked.verdicts.has(verdict), (on) => {
        if (on) asked.verdicts.add(verdict);
        else asked.verdicts.delete(verdict);
        keep();
      });
      chip.classList.add("chip");
      return chip;
    }), h("span", { className: "muted" }, `${plural(claims.length, "claim")}, ${primary} primary`)),
  ];
}

function block(study, axis, folded) {
  const primary = study.claims.filter((claim) => claim.kind === "primary");
  const first = folded && primary.length ? primary : study.claims;
  const others = folded && primary.length ? study.claims.filter((claim) => claim.kind !== "primary") : [];
  const link = address("study", study.study, { preset: study.preset });
  return h("article", { className: "study" },
    h("header", {},
      h("h3", {}, h("a", { href: link, className: "stop" }, study.title ?? study.study)),
      h("p", { className: "about" }, [study.figures, `preset ${study.preset}`, study.seeds && plural(study.seeds, "seed"),
        Number.isFinite(study.minutes) && `${number(study.minutes)} min`, study.draft && "draft"].filter(Boolean).join(" · "))),
    study.finding && h("p", { className: "finding" }, study.finding),
    h("div", { className: "claims", role: "table", "aria-label": `claims of ${study.title}` },
      h("div", { className: "claim head", "aria-hidden": "true" }, h("span", {}, "verdict"), h("span", {}, "claim"), scale(axis), h("span", {}, "ours"), h("span", {}, "paper"), h("span", {}, "kind")),
      first.map((claim) => row(claim, axis))),
    others.length ? h("details", {}, h("summary", {}, plural(others.length, "other claim")),
      h("div", { className: "claims", role: "table" }, others.map((claim) => row(claim, axis)))) : null);
}

export function row(claim, axis) {
  const notes = [claim.endpoint, ...(claim.readings ?? [])].filter(Boolean).join("; ");
  return h("div", { className: "claim", role: "row", title: notes },
    h("span", { role: "cell" }, verdictMark(claim.verdict)),
    h("span", { role: "cell", className: "statement" }, claim.statement),
    h("span", { role: "cell", className: "drawn" }, interval(claim, axis)),
    h("span", { role: "cell", className: "ours" }, claim.interval),
    h("span", { role: "cell", className: "says" }, claim.paper),
    h("span", { role: "cell", className: "kind" }, claim.kind));
}

function empty(board) {
  return h("div", { className: "nothing" }, h("p", {}, `No study is finished in ${board.store} yet. Run one:`),
    h("pre", {}, "headstart run less_data/mini_and_full_batch_mlp --preset smoke"));
}
