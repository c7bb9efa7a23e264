"""Level 7: one file per figure or table of a paper. A study is a module that binds STUDY."""

import difflib
import importlib
import importlib.util
import pkgutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from headstart.core.errors import HeadstartError
from headstart.lab.study import Study


@cache
def all_studies() -> dict[str, Study]:
    """Every study of the package by name, such as less_data/mini_and_full_batch_mlp.

    A module whose name begins with an underscore is part of a study beside it.
    """
    found = {}
    for module in pkgutil.walk_packages(__path__, prefix=f"{__name__}."):
        if not module.ispkg and not module.name.rpartition(".")[2].startswith("_"):
            study = _study_of(importlib.import_module(module.name))
            found[study.name] = study
    return dict(sorted(found.items()))


def find(name: str) -> Study:
    """The study with this name, or the one in the file at this path."""
    if name.endswith(".py"):
        return _from_file(Path(name))
    studies = all_studies()
    if name in studies:
        return studies[name]
    short = {known.split("/")[-1]: known for known in studies}
    near = difflib.get_close_matches(name, [*studies, *short], n=3, cutoff=0.4)
    names = list(dict.fromkeys(short.get(n, n) for n in near)) or list(studies)
    raise HeadstartError(f"there is no study {name!r}; did you mean {' or '.join(names)}? (headstart list shows all)")


def select(name: str, only: str | None = None) -> list[Study]:
    """The study with this name or path, or every study of a paper's folder; `only` keeps those with a tag."""
    folder = [s for n, s in all_studies().items() if n.startswith(f"{name.rstrip('/')}/")]
    chosen = folder or [find(name)]
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
    except SyntaxError as error:
        raise HeadstartError(f"the study file {path} is no Python: line {error.lineno}: {error.msg}") from None


def _study_of(module: object) -> Study:
    study = getattr(module, "STUDY", None)
    if not isinstance(study, Study):
        raise HeadstartError(f"{getattr(module, '__file__', module)} does not bind STUDY to a headstart Study")
    return study
