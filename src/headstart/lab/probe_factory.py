"""A user's factory: found by its name, in this process and in workers; what it raises is one line."""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.faults import said, users_line

_OURS = Path(__file__).parents[1]


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Whatever a user's code raises here is a HeadstartError that names `what` was called and the last frame."""
    try:
        yield
    except HeadstartError:
        raise
    except (Exception, SystemExit) as error:
        where = _last_frame(error)
        raise HeadstartError(f"{what} raised {said(error)}" + (f" ({where})" if where else "")) from error


def _last_frame(error: BaseException) -> str:
    """ "file.py, line 3": in the user's code if the error passed through it, else in a library; ours says nothing."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    own = users_line(error)
    frames = traceback.extract_tb(error.__traceback__)
    if own or not frames or Path(frames[-1].filename).is_relative_to(_OURS):
        return own or ""
    return f"{frames[-1].filename}, line {frames[-1].lineno}"


def load_factory(name: str) -> Any:
    """The function that "package.module:factory" or "path/to/file.py:factory" names."""
    module, colon, attribute = name.rpartition(":")
    if not colon or not module or not attribute:
        raise HeadstartError(f"{name!r}: write package.module:factory, or file.py:factory")
    is_file = module.endswith(".py")
    if not is_file and not all(part.isidentifier() for part in module.split(".")):
        raise HeadstartError(
            f"{name!r}: {module!r} is no name of a module; write package.module:factory, or file.py:factory"
        )
    if is_file and not os.path.isfile(module):
        raise HeadstartError(f"{name!r}: there is no file {module}")
    try:
        with asking(f"importing {module}"):
            found = _import_file(Path(module)) if is_file else _import_module(module)
    except HeadstartError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and f"{module}.".startswith(f"{cause.name}.") and not is_file:
            raise HeadstartError(f"{name!r}: {cause}; is its folder the current one, or on PYTHONPATH?") from None
        raise
    if not hasattr(found, attribute):
        raise HeadstartError(f"{name!r}: module {module} has no {attribute}")
    return getattr(found, attribute)


def _import_module(name: str) -> ModuleType:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # what lies beside it can be imported, as for a script
    spec = importlib.util.spec_from_file_location(f"headstart_probed_{path.stem}", path.resolve())
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def name_of(source: Any) -> str | None:
    """The "module:function" by which another process finds a factory; None where it cannot."""
    if isinstance(source, str):
        return source
    module, name = getattr(source, "__module__", None), getattr(source, "__qualname__", None)
    if module in (None, "__main__") or not isinstance(name, str):
        return None
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is source else None


def source_file(source: Any) -> Path | None:
    """The file that defines a factory, if there is one."""
    file = getattr(sys.modules.get(getattr(source, "__module__", "")), "__file__", None)
    return Path(file) if callable(source) and file and os.path.isfile(file) else None
