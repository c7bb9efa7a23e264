"""The git checkout around a folder: its commit, and what in it has changed besides what reports write."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# What `headstart report` and the benchmark write; a source file among them is a change like any other.
_WRITTEN = {".png", ".md", ".json", ".txt"}
_BLOCK = re.compile(r"(<!-- (\w+): begin\b[^\n]*?-->).*?(<!-- \2: end -->)", re.S)
# A number of a claim in prose, a link to its page: [0.81 [0.77, 0.85]](results/paper/study.md "claim: holds").
_NUMBER = r"(?P<number>[^\[\]\n]*(?:\[[^\[\]\n]*\])?)"
QUOTE = re.compile(rf"\[{_NUMBER}\]\((?P<page>[\w./-]+)\.md \"(?P<claim>[\w.]+): (?P<verdict>[a-z ]+)\"\)")


class Change(NamedTuple):
    """A file that is not as in the last commit."""

    path: Path
    is_new: bool  # git does not know it


def _git(folder: Path, *args: str) -> str | None:
    """What git prints, None if it fails or is not there."""
    call = ["git", "--no-optional-locks", "-C", str(folder), *args]
    try:
        return subprocess.run(call, capture_output=True, timeout=60, check=True).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return None


def checkout_of(path: Path) -> Path | None:
    """The top of the checkout that a path lies in, whether it exists yet or not; None outside git."""
    folder = path.resolve()
    while not folder.is_dir():
        folder = folder.parent
    top = _git(folder, "rev-parse", "--show-toplevel")
    return Path(top.rstrip("\n")) if top else None


def is_tracked(path: Path) -> bool:
    """Whether git knows this file."""
    return _git(path.parent, "ls-files", "--error-unmatch", path.name) is not None


def head(checkout: Path) -> str | None:
    """The commit that is checked out, in ten digits; None before the first."""
    found = _git(checkout, "rev-parse", "--short=10", "HEAD")
    return found.strip() if found else None


def without_blocks(text: str) -> str:
    """A text without what reports write in it.

    That is what stands between marks such as <!-- results: begin ... --> and <!-- results: end -->, and the numbers of
    claims that it quotes.
    """
    return QUOTE.sub(r'[](\g<page>.md "\g<claim>: \g<verdict>")', _BLOCK.sub(r"\1\3", text))


def changes(checkout: Path, results: Path, readme: Path) -> list[Change]:
    """What differs from the last commit, besides what reports write.

    That is pages, figures and data in `results`, blocks and quoted numbers of `readme` and of the pages beside
    `results`. Files that git ignores are no changes; new files that it does not ignore are.
    """
    results, readme = results.resolve(), readme.resolve()
    found = []
    for change in _status(checkout):
        is_result = change.path.is_relative_to(results) and change.path.suffix in _WRITTEN
        is_text = change.path == readme or (change.path.parent == results.parent and change.path.suffix == ".md")
        if not is_result and not (is_text and _differs_in_blocks_alone(checkout, change.path)):
            found.append(change)
    return found


def _status(checkout: Path) -> Iterator[Change]:
    """Every file that is not as in the last commit; of a rename, both names."""
    listed = _git(checkout, "status", "--porcelain=v1", "-z", "--untracked-files=all")
    if listed is None:  # git is too slow or broken: nothing is known to be unchanged
        yield Change(checkout.resolve(), False)
        return
    entries = iter(listed.split("\0")[:-1])
    for entry in entries:
        state, name = entry[:2], entry[3:]
        yield Change(checkout.resolve() / name, state == "??")
        if "R" in state or "C" in state:
            yield Change(checkout.resolve() / next(entries), False)


def _differs_in_blocks_alone(checkout: Path, path: Path) -> bool:
    committed = _git(checkout, "show", f"HEAD:{path.relative_to(checkout.resolve()).as_posix()}")
    if committed is None or not path.is_file():
        return False
    return without_blocks(path.read_text("utf-8", "replace")) == without_blocks(committed.replace("\r\n", "\n"))
