"""How kernels are compiled: serial, without the GIL, cached on disk under a hash of their sources.

Numba's own cache watches only the file that holds a function, not the files it calls into, so the cache directory
carries a hash of every source of this package and of the package a kernel lies in. Import kernels through `kernels()`
only: it chooses the directory before the first decorator runs, and it keeps numba out of `import headstart`.
"""

import hashlib
import importlib
import os
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

# Reassociation and contraction only: a NaN must stay one, or a diverged run would look finite.
FAST = {"reassoc", "contract", "nsz", "arcp"}

_importing = threading.Lock()


def _compiled(function: Function, cache: bool = False, fastmath: set[str] = FAST, **options: Any) -> Function:
    numba: Any = importlib.import_module("numba")  # its stubs lack the options that leave out wrappers
    compiled = numba.njit(nogil=True, cache=cache, fastmath=fastmath, error_model="numpy", **options)(function)
    return cast(Function, compiled)


def kernel(function: Function) -> Function:
    """Compile a function that Python calls."""
    return _compiled(function, cache=True)


def part(function: Function) -> Function:
    """Compile a function that only kernels call: without the wrapper for Python, which takes a third of the time."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def exact(function: Function) -> Function:
    """The same where the order of additions matters: no reassociation."""
    return _compiled(function, fastmath={"contract"}, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Function) -> Function:
    """Compile a function into each of its callers: passing arrays costs more than a short body."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def pasted(function: Function) -> Function:
    """A function with one caller, which is compiled as if its lines stood there, once instead of twice."""
    return _compiled(function, inline="always")


def operation(function: Callable[..., Any]) -> Any:
    """An intrinsic: the function says its types and builds its own instructions."""
    from numba.extending import intrinsic

    return intrinsic(function)


def source_hash(package: str) -> str:
    """64 bits of the SHA-256 of the sources of this package and of `package`, such as "engines.fused"."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for folder in (here, here.parents[1].joinpath(*package.split("."))):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def kernels(name: str) -> ModuleType:
    """The kernel module `headstart.<name>`, such as "engines.fused.bits", its cache keyed by the sources.

    NUMBA_CACHE_DIR, if the user set it, is the parent directory instead of the user's cache directory.
    """
    import platformdirs

    parent = os.environ.get("NUMBA_CACHE_DIR") or platformdirs.user_cache_path("headstart") / "kernels"
    with _importing:
        config: Any = importlib.import_module("numba.core.config")
        before = config.CACHE_DIR
        config.CACHE_DIR = str(Path(parent) / source_hash(name.rpartition(".")[0]))
        try:
            return importlib.import_module(f"headstart.{name}")
        finally:
            config.CACHE_DIR = before
