"""Workers on more machines: the back ends behind `--on`. What each needs is imported when it is asked for."""

from collections.abc import Iterator
from contextlib import contextmanager

from headstart.core.files import marking
from headstart.lab.backends.settings import Ray, Slurm
from headstart.lab.store import Store
from headstart.lab.workers import Workers

__all__ = ["Ray", "Slurm", "ray_workers", "slurm_workers"]


@contextmanager
def ray_workers(store: Store, ray: Ray, jobs: int | None = None, device: str = "cpu") -> Iterator[Workers]:
    """`jobs` workers on Ray, by default as many as it has cores, or shares of its GPUs."""
    from headstart.lab.backends.greeting import Greeting
    from headstart.lab.backends.ray_actors import RayWorkers

    with (
        marking(store.checkpoints.absolute()) as shared,
        RayWorkers(ray, jobs, Greeting(device, shared)) as pool,
    ):
        yield pool


@contextmanager
def slurm_workers(store: Store, slurm: Slurm, jobs: int, device: str = "cpu") -> Iterator[Workers]:
    """At most `jobs` jobs of Slurm; first, what those of a dead coordinator finished is stored."""
    from headstart.lab.backends.greeting import Greeting
    from headstart.lab.backends.segments import users_key
    from headstart.lab.backends.slurm_pool import SlurmWorkers
    from headstart.lab.backends.slurm_session import recover

    key = users_key()
    recover(store, slurm, key)
    with SlurmWorkers(store.path, slurm, jobs, Greeting(device), key) as pool:
        yield pool
