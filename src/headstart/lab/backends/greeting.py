"""What a worker on another machine must have in common with the coordinator, and how it is made ready."""

import hashlib
import os
import platform
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

from headstart.lab import provenance
from headstart.lab.workers import Group

_PACKAGE = Path(provenance.__file__).parents[1]
# What workers take from the coordinator, unless their machine says otherwise.
_ENVIRONMENT = "HEADSTART_"
_NOT_THEIRS = ("HEADSTART_STORE",)


@cache
def edition() -> dict[str, str]:
    """What numbers depend on: versions, and a checksum of the package's source."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(_PACKAGE)).encode())
        digest.update(path.read_bytes())
    # Builds for a processor or a graphics card differ after the plus.
    versions = {name: said.partition("+")[0] for name, said in provenance.versions().items()}
    python = ".".join(platform.python_version_tuple()[:2])
    return {**versions, "numba": version("numba"), "python": python, "source": digest.hexdigest()}


@dataclass(frozen=True)
class Greeting:
    """What the coordinator tells a worker: its edition, where modules are, the device, and a file to be seen.

    `shared` lies in the folder of checkpoints; a worker that does not see it writes none.
    """

    device: str = "cpu"
    shared: Path | None = None
    edition: Mapping[str, str] = field(default_factory=edition)
    path: tuple[str, ...] = field(default_factory=lambda: tuple(sys.path))
    environment: Mapping[str, str] = field(
        default_factory=lambda: {
            name: value
            for name, value in os.environ.items()
            if name.startswith(_ENVIRONMENT) and name not in _NOT_THEIRS
        }
    )

    def refusal(self) -> str | None:
        """In a worker: None, or why it may not work for this coordinator."""
        mine = edition()
        for name in self.edition:
            if mine.get(name) != self.edition[name]:
                what = "another source of headstart" if name == "source" else f"{name} {mine.get(name)}"
                here = "the coordinator's" if name == "source" else f"the coordinator's {self.edition[name]}"
                return (
                    f"the worker on {socket.gethostname()} has {what}, which is not {here}; results would not be the "
                    "same: install the same version on all machines"
                )
        if self.device != "cpu":
            from headstart.engines.loop import check_device

            try:
                check_device(self.device)
            except ValueError as error:
                return f"the worker on {socket.gethostname()} cannot use it: {error}"
        return None

    def settle(self) -> None:
        """In a worker: see the modules the coordinator sees, and its environment."""
        sys.path += [entry for entry in self.path if entry not in sys.path]
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)

    def fit(self, group: Group) -> Group:
        """A group as this worker trains it: without checkpoints where their folder is not shared."""
        if self.shared is not None and self.shared.exists():
            return group
        return replace(group, jobs=[replace(job, checkpoint=None) for job in group.jobs])
