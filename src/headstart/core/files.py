"""Files that are either whole or not there."""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX, _SUFFIX = ".headstart-", ".tmp"
# Where one cannot ask whether a process still lives, a temporary file of this age has been left behind.
_OLD_SECONDS = 24 * 3600


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new, empty file beside `path` that takes its place, synced to disk, when the block ends without an error.

    Its name cannot be guessed, and it is made so that no link or file that lies there already is followed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o666))
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def marking(folder: Path) -> Iterator[Path]:
    """A new, empty file in a folder while the block lasts; one that a kill leaves is found by `left_behind`."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = _temporary(folder / "mark")
    mark.touch(exist_ok=False)
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """A new, empty folder beside `path` that takes its place, synced to disk, when the block ends without an error.

    Files lie in it directly. A folder that was there goes; one that somebody else put there meanwhile stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    temporary.mkdir()
    before = path.stat().st_ino if path.exists() else None
    try:
        yield temporary
        for file in temporary.iterdir():
            with file.open("rb+") as opened:
                os.fsync(opened.fileno())
        if before is not None and path.exists() and path.stat().st_ino == before:
            old = _temporary(path)
            path.rename(old)
            shutil.rmtree(old)
        if not path.exists():
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def replacing_tree(path: Path, mark: str) -> Iterator[Path]:
    """A new folder, with folders in it, that takes the place of `path` when the block ends without an error.

    A file named `mark` in it says that it was made so; a folder without one is replaced only if it is empty.
    """
    if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not (path / mark).exists())):
        raise FileExistsError("there is something else")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    temporary.mkdir()
    try:
        yield temporary
        (temporary / mark).write_text("Written by headstart; the next export replaces this folder.\n")
        if path.exists():
            shutil.rmtree(path)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f"{_PREFIX}{os.getpid()}-{secrets.token_hex(12)}{_SUFFIX}")


def left_behind(folder: Path) -> list[Path]:
    """The temporary files and folders in a folder whose process is gone: a kill leaves them behind."""
    return [path for path in folder.glob(f"{_PREFIX}*{_SUFFIX}") if not _in_use(path)]


def _in_use(path: Path) -> bool:
    number = path.name.removeprefix(_PREFIX).partition("-")[0]
    if os.name != "posix" or not number.isdigit():
        return time.time() - path.stat().st_mtime < _OLD_SECONDS
    try:
        os.kill(int(number), 0)  # signal 0 only asks whether the process is there
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def inside(folder: Path, name: str, suffix: str) -> Path:
    """`folder`/`name``suffix`, kept inside the folder whatever the name is.

    Slashes in the name make folders. What could lead elsewhere (".." and "."), or is no letter, digit, or one of
    "-_.+=, ", becomes "_"; parts are cut after 100 characters.
    """
    parts = ["".join(c if c.isalnum() or c in "-_.+=, " else "_" for c in part)[:100] for part in name.split("/")]
    safe = [part if part.strip(". ") else "_" for part in parts if part]
    return folder.joinpath(*safe[:-1], (safe[-1] if safe else "_") + suffix)
