"""Where runs are trained: the flags of `headstart run` that name other machines."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Annotated, Any

from tyro.conf import arg

from headstart.core.errors import HeadstartError
from headstart.lab.backends import Ray, Slurm, ray_workers, slurm_workers
from headstart.lab.store import Store
from headstart.lab.workers import Workers, workers

_MOST_JOBS = 1024
_SLURM_JOBS = 8


def check_jobs(jobs: int | None) -> None:
    """Raise where there are none, or too many."""
    if jobs is not None and not 1 <= jobs <= _MOST_JOBS:
        raise HeadstartError(f"--jobs {jobs}: use at least 1 process, and at most {_MOST_JOBS}")


@dataclass(frozen=True)
class Machines:
    """Where runs are trained."""

    on: Annotated[
        str | None, arg(metavar="WHERE", help="ray, ray://HOST:PORT, ray://auto or slurm (default: this machine)")
    ] = None
    partition: Annotated[str | None, arg(metavar="NAME", help="on slurm: the partition of the jobs")] = None
    time: Annotated[int | None, arg(metavar="MINUTES", help="on slurm: the time limit of a job (default: 60)")] = None
    memory: Annotated[float | None, arg(metavar="GB", help="on slurm: the memory of a job (default: 4)")] = None
    cpus: Annotated[int | None, arg(metavar="N", help="on slurm: the cores of a job (default: 1)")] = None
    gpus: Annotated[
        float | None, arg(metavar="N", help="on slurm: GPUs of a job; on ray: GPUs of a worker, also shares (0.25)")
    ] = None

    @property
    def is_far(self) -> bool:
        """Whether others than this process and its own train."""
        return self.on is not None

    def check(self, device: str) -> "Ray | Slurm | None":
        """What is asked of the back end; None is this machine. Raises where flags do not fit."""
        name, _, address = (self.on or "").partition("://")
        if self.on not in (None, "ray", "slurm") and not (name == "ray" and address):
            raise HeadstartError(f"--on {self.on}: use ray, ray://HOST:PORT, ray://auto or slurm")
        allowed = {None: (), "ray": ("gpus",)}.get(name or None, [each.name for each in fields(self)])
        for flag in ("partition", "time", "memory", "cpus", "gpus"):
            if getattr(self, flag) is not None and flag not in allowed:
                fits = "--on slurm or --on ray" if flag == "gpus" else "--on slurm"
                raise HeadstartError(f"--{flag} {getattr(self, flag)}: it goes with {fits}")
        gpus = self.gpus if self.gpus is not None else float(device.startswith("cuda"))
        if self.on is None:
            return None
        if name == "ray":
            return Ray({"": None, "auto": "auto"}.get(address, f"ray://{address}"), gpus)
        if gpus != int(gpus):
            raise HeadstartError(f"--gpus {gpus:g}: Slurm gives whole GPUs; use 1, or --on ray for shares")
        given: dict[str, Any] = {"partition": self.partition, "minutes": self.time, "memory": self.memory}
        given |= {"cpus": self.cpus, "gpus": int(gpus)}
        return Slurm(**{flag: value for flag, value in given.items() if value is not None})

    def workers(self, jobs: int | None, device: str, store: Store) -> AbstractContextManager[Workers]:
        """Those who train, for a `with` block."""
        where = self.check(device)
        if isinstance(where, Ray):
            return ray_workers(store, where, jobs or (None if where.address else os.cpu_count()), device)
        if isinstance(where, Slurm):
            return slurm_workers(store, where, jobs or _SLURM_JOBS, device)
        return workers(jobs or os.cpu_count() or 1)


HERE = Machines()
