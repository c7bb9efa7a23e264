"""What the commands share: the program, the flags that several take, and how they print."""

import json as jsonlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional, UseAppendAction, arg

from headstart.core.errors import HeadstartError
from headstart.lab.received import published_reports
from headstart.lab.store import Store, open_store, store_path

StudyName = Annotated[Positional[str], arg(metavar="STUDY", help="a study, as `headstart list` names it, or a file")]
StorePath = Annotated[
    Path | None, arg(metavar="PATH", help="the SQLite store (default: HEADSTART_STORE, or the user's data directory)")
]
Preset = Annotated[
    str, arg(metavar="NAME", help="smoke (seconds), laptop (minutes), desk (hours) or paper (the full setting)")
]
Settings = Annotated[
    tuple[str, ...], arg(name="set", metavar="NAME=VALUE", help="set a knob of the study"), UseAppendAction
]
Choices = Annotated[
    Path | None, arg(metavar="FOLDER", help="take the settings that pages published there chose, and search no others")
]
Json = Annotated[bool, arg(help="print JSON for a program to read")]

app = tyro.extras.SubcommandApp()


def print_json(data: Any) -> None:
    """Print data for a program to read."""
    print(jsonlib.dumps(data, indent=1, ensure_ascii=False))


def console() -> Any:
    """Where tables go."""
    from rich.console import Console

    # Tables need room when the output goes to a file or a pipe.
    return Console() if sys.stdout.isatty() else Console(width=140)


def settings(pairs: Sequence[str], seeds: int | None) -> dict[str, str]:
    """The knobs that --set and --seeds name."""
    out = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise HeadstartError(f"--set {pair}: write NAME=VALUE")
        out[name.strip()] = value.strip()
    return out | ({} if seeds is None else {"num_seeds": str(seeds)})


def pages_of(choices: Path | None) -> list[dict[str, Any]]:
    """The published pages whose settings are to be taken; none if no folder is named."""
    return [] if choices is None else published_reports(choices, option="--choices")


def open_named(store: Path | None) -> Store:
    """The store to read: one that was named must be there, the default one may be empty. Looking makes nothing."""
    path = store_path(store)
    if store is not None and not _is_there(path):
        raise HeadstartError(f"--store {store}: there is no such store; run a study into it first, or name another")
    return open_store(path)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # it may be there: let opening say what is wrong
        return True
