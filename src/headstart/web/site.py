"""The page as files that open from disk, offline: its code in one script, and every answer it needs as another."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing_tree
from headstart.web.encoding import to_json
from headstart.web.reading import NotThere, Reading
from headstart.web.requests import Look, parse_series

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|let|class) (\w+))", re.M)
_MARK = "headstart-site.txt"
_WIDTH = 240
_MOST_CELLS, _MOST_SEEDS = 2000, 8
_HEAD = """<meta http-equiv="Content-Security-Policy" content="connect-src 'none'">
<script src="data/index.js"></script>
<script src="page.js" defer></script>"""


def static_files() -> dict[str, bytes]:
    """Every file of the page by its path, such as app.js and vendor/uPlot.min.css."""
    root = files("headstart.web") / "static"
    folders = {"": root, "vendor/": root / "vendor"}
    return {
        f"{at}{each.name}": each.read_bytes()
        for at, folder in folders.items()
        for each in folder.iterdir()
        if each.is_file()
    }


def bundle(pages: dict[str, bytes]) -> str:
    """The modules of the page as one classic script: a browser imports no module from disk."""
    made: dict[str, str] = {}

    def add(name: str) -> None:
        if name in made:
            return
        text = pages[f"{name}.js"].decode()
        for _, other in _IMPORT.findall(text):
            add(other)
        exported = ", ".join(found[1] for found in _EXPORT.findall(text))
        body = _EXPORT.sub(r"\1", _IMPORT.sub(r"const {\1} = modules.\2;\n", text))
        made[name] = f"modules.{name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"

    add("app")
    return '"use strict";\n(() => {\nconst modules = {};\n' + "".join(made.values()) + "})();\n"


def export_site(store: Path, folder: Path) -> int:
    """Write the page over a store into a folder; returns how many files it has. An earlier export is replaced."""
    reading, num = Reading(store), 1
    try:
        with replacing_tree(folder, _MARK) as made:
            for path, data in _contents(reading):
                place = made / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
                num += 1
    except OSError as error:
        raise HeadstartError(f"--export {folder}: {error}; name a folder that is new or empty") from None
    finally:
        reading.close()
    return num


def _contents(reading: Reading) -> Iterator[tuple[str, bytes]]:
    """Every file of the site: (path, bytes)."""
    pages = static_files()
    html = pages["index.html"].decode()
    begin, end = html.index('<script type="module"'), html.index("</head>")
    yield "index.html", (html[:begin] + _HEAD + "\n" + html[end:]).encode()
    yield "page.js", bundle(pages).encode()
    for path, data in pages.items():
        if not path.endswith(".html") and (path.startswith("vendor/") or not path.endswith(".js")):
            yield path, data
    board = reading.scoreboard()
    names = {each["study"]: f"{number:04}" for number, each in enumerate(board["studies"])}
    index = f"window.HEADSTART_SITE = {{ names: {json.dumps(names)}, data: {{}} }};\n"
    yield "data/index.js", index.encode()
    yield _script("scoreboard", board)
    cells = reading.cells()
    yield _script("cells", cells)
    curves: dict[str, dict[str, dict[str, Any]]] = {}
    for each in cells["cells"][:_MOST_CELLS]:
        yield _script(f"runs/{each['cell']}", reading.runs(each["cell"]))
        leading = next((name for name in each["records"] if name.startswith("test_")), None)
        if leading is not None:
            lines = [each["cell"]]
            if any(kind == "claim" for *_, kind in each["users"]):
                seeds = range(each["first"], min(each["last"], each["first"] + _MOST_SEEDS - 1) + 1)
                lines += [f"{each['cell']}:{seed}" for seed in seeds]
            curves[each["cell"]] = {line: made for line in lines if (made := _curve(reading, line, leading, None))}
    pairs: dict[str, dict[str, Any]] = {}
    for study, name in names.items():
        report = reading.study(study)
        yield _script(f"study/{name}", report)
        if report.get("computed"):
            yield _script(f"computed/{name}", {part: reading.computed(study, part) for part in report["computed"]})
        for arm in report["arms"].values():
            for metric in arm["records"]:
                own = curves.setdefault(arm["cell"], {}).setdefault(arm["series"], {})
                chance = arm["metric"].get("chance") if metric == _leading(arm) else None
                own |= _curve(reading, arm["series"], metric, chance)
        _add_pairs(reading, report, pairs)
    for cell, known in curves.items():
        yield _script(f"curves/{cell}", known)
    for cell, found in pairs.items():
        yield _script(f"pairs/{cell}", found)


def _curve(reading: Reading, line: str, metric: str, chance: float | None) -> dict[str, Any]:
    """A curve of a line by its metric; nothing where it has none."""
    try:
        chances = {} if chance is None else {0: chance}
        return {metric: reading.curves(parse_series(line), Look(metric, width=_WIDTH), chances)["series"][0]}
    except NotThere:
        return {}


def _leading(arm: dict[str, Any]) -> str | None:
    """The leading metric of an arm, as the page finds it."""
    named = f"test_{arm['metric'].get('name')}"
    return named if named in arm["records"] else next((n for n in arm["records"] if n.startswith("test_")), None)


def _add_pairs(reading: Reading, report: dict[str, Any], pairs: dict[str, dict[str, Any]]) -> None:
    """What the page shows of two arms, for those that a claim compares, or the first two, on every axis."""
    arms = {name: arm for name, arm in report["arms"].items() if arm["records"]}
    asked = [(claim.get("contrast") or {}).get("arms") or [] for claim in report["claims"]]
    wanted = [pair for pair in [*asked, list(arms)[:2]] if len(pair) == 2 and set(pair) <= set(arms)]
    for one, other in dict.fromkeys(map(tuple, wanted)):
        first, second = arms[one], arms[other]
        metric = _leading(first)
        if metric is None or metric not in second["records"]:
            continue
        for axis in ("steps", "samples", "flops"):
            (a,), (b,) = parse_series(first["series"]), parse_series(second["series"])
            higher = first["metric"].get("higher_is_better", "loss" not in metric)
            made = reading.pair(a, b, Look(metric, axis, _WIDTH), first["metric"].get("chance"), higher)
            pairs.setdefault(first["cell"], {})[f"{first['series']};{second['series']};{metric};{axis}"] = made


def _script(path: str, data: Any) -> tuple[str, bytes]:
    return f"data/{path}.js", f"HEADSTART_SITE.data[{json.dumps(path)}] = {to_json(data)};\n".encode()
