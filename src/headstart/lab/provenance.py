"""Where a number came from: commit, machine, versions."""

import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

from headstart.lab.checkout import changes, checkout_of, head, is_tracked


@cache
def commit() -> str:
    """The commit of the checkout this package runs from, marked -dirty when it has changes; else the package version.

    Pages of results that were written since, and new files outside the package, are no changes: no number depends on
    them. A package installed into the checkout of another project is known by its version.
    """
    here = Path(__file__).resolve()
    checkout = checkout_of(here) if is_tracked(here) else None
    found = head(checkout) if checkout else None
    if checkout is None or found is None:
        return f"v{version('headstart')}"
    package = here.parents[1]
    changed = changes(checkout, checkout / "docs" / "results", checkout / "README.md")
    dirty = any(not change.is_new or change.path.is_relative_to(package) for change in changed)
    return f"{found}-dirty" if dirty else found


@cache
def machine() -> str:
    """The processor, its cores and the memory, in one line."""
    name, memory = platform.machine(), ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = f", {pages / 2**30:.0f} GB"
    except (OSError, ValueError):
        pass
    return f"{name}, {os.cpu_count()} cores{memory}"


@cache
def versions() -> dict[str, str]:
    """The versions that numbers may depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in ("headstart", "torch", "numpy")}}
