"""Where a number came from: commit, machine, versions."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path


@cache
def commit() -> str:
    """The commit of the checkout this package runs from, marked when it has changes; else the package version."""
    here = Path(__file__).parent
    try:
        call = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
        done = subprocess.run(call, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return f"v{version('headstart')}"


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
