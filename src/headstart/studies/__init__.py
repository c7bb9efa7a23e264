"""Level 8: one file per figure or table of a paper. A study is a module that binds STUDY."""

import difflib
import importlib
import importlib.util
import pkgutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from headstart.core.errors import HeadstartError
from headstart.core.faults import said, users_line
from headstart.lab.study import Study


@cache
def names() -> tuple[str, ...]:
    """The names of all studies of the package, such as less_data/mini_and_full_batch_mlp, without importing them.

    A module whose name begins with an underscore is part of a study beside it.
    """
    folders = (m.name for m in pkgutil.iter_modules(__path__) if m.ispkg)
    found = [
        f"{folder}/{module.name}"
        for folder in folders
        for module in pkgutil.iter_modules([str(Path(__path__[0]) / folder)])
        if not module.name.startswith("_")
    ]
    return tuple(sorted(found))


def all_studies() -> dict[str, Study]:
    """Every study of the package by name."""
    return {name: _load(name) for name in names()}


@cache
def _load(name: str) -> Study:
    study = _study_of(importlib.import_module(f"{__name__}.{name.replace('/', '.')}"))
    if study.name != name:
        raise HeadstartError(f"the study in {name}.py calls itself {study.name!r}; name it {name!r}")
    return study


def find(name: str) -> Study:
    """The study with this name, or the one in the file at this path."""
    if name.endswith(".py"):
        return _from_file(Path(name))
    if name in names():
        return _load(name)
    short = {known.split("/")[-1]: known for known in names()}
    near = difflib.get_close_matches(name, [*names(), *short], n=3, cutoff=0.4)
    suggested = list(dict.fromkeys(short.get(n, n) for n in near)) or list(names())
    raise HeadstartError(
        f"there is no study {name!r}; did you mean {' or '.join(suggested)}? (headstart list shows all)"
    )


def select(name: str, only: str | None = None) -> list[Study]:
    """The study with this name or path, or every study of a paper's folder; `only` keeps those with a tag."""
    folder = [known for known in names() if known.startswith(f"{name.rstrip('/')}/")]
    chosen = [_load(known) for known in folder] or [find(name)]
    kept = [s for s in chosen if only is None or only in s.tags]
    if not kept:
        tags = sorted({tag for s in chosen for tag in s.tags})
        raise HeadstartError(f"--only {only}: no study of {name} has this tag; there are {', '.join(tags) or 'none'}")
    return kept


def _from_file(path: Path) -> Study:
    """Load a study file outside the package under its own name, so that its parts can be found again by it."""
    if not path.is_file():
        raise HeadstartError(f"there is no study file {path}; give the path of a .py file that binds STUDY")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) != str(path.resolve()):
        raise HeadstartError(f"the study file {path} has the name of another module, {name}; rename it")
    try:
        return replace(_study_of(importlib.import_module(name)), file=str(path))
    except HeadstartError:
        raise
    except SyntaxError as error:
        raise HeadstartError(f"the study file {path} is no Python: line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise HeadstartError(f"the study file {path} cannot be loaded: {said(error)} ({users_line(error)})") from error


def _study_of(module: object) -> Study:
    study = getattr(module, "STUDY", None)
    if not isinstance(study, Study):
        raise HeadstartError(f"{getattr(module, '__file__', module)} does not bind STUDY to a headstart Study")
    return study
