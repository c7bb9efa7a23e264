"""Faults that are not Headstart's own, in one line: where a user's code raised, what the system refused."""

import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from headstart.core.errors import HeadstartError

_HERE = Path(__file__).parents[1]
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_LONGEST = 2000


def one_line(text: str) -> str:
    """Text for a terminal: on one line, and without characters that would steer it."""
    joined = " ".join(part for line in text.splitlines() if (part := line.strip()))
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in joined)
    return safe if len(safe) <= _LONGEST else f"{safe[:_LONGEST]} ..."


def _frames(error: BaseException) -> Iterator[tuple[str, int]]:
    """The files and lines an error passed through, the innermost last; those of a worker process too."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    remote = getattr(error.__cause__, "tb", None)  # of a process pool: text
    if isinstance(remote, str):
        for file, line in _FRAME.findall(remote):
            yield file, int(line)


def _is_users(file: str) -> bool:
    """Whether a file is neither Headstart's nor of Python or an installed package."""
    if file.startswith("<"):
        return False
    path = Path(os.path.abspath(file))
    libraries = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
    return not any(path.is_relative_to(each) for each in {_HERE, *map(Path, libraries), Path(sys.base_prefix, "lib")})


def users_line(error: BaseException) -> str | None:
    """Where in a user's own code an error came from: "file.py, line 3"; None if it passed through none."""
    own = [(file, line) for file, line in _frames(error) if _is_users(file)]
    return f"{own[-1][0]}, line {own[-1][1]}" if own else None


def users_fault(error: BaseException, what: str = "your code") -> HeadstartError | None:
    """An error that a user's code raised, as one line that names the place; None if it is not a user's."""
    where = users_line(error)
    if where is None:
        return None
    return HeadstartError(f"{what} raised {said(error)} ({where}); HEADSTART_TRACEBACK=1 shows the way there")


def said(error: BaseException) -> str:
    """The kind of an error, with what it says."""
    text = one_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def systems_fault(error: BaseException) -> HeadstartError | None:
    """A refusal of the system, such as a full disk or want of memory, as one line; None if it is none."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return HeadstartError(
            f"there is not enough memory: {said(error)}; use fewer --jobs, or a smaller width, batch or set"
        )
    if isinstance(error, OSError):
        named = f" ({error.filename})" if error.filename and str(error.filename) not in str(error) else ""
        return HeadstartError(
            f"the system refused: {error}{named}; free space, change permissions, or name another place"
        )
    return None
