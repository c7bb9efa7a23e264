"""What is asked of a back end."""

from dataclasses import dataclass

from headstart.core.errors import HeadstartError, check_count, check_nonnegative, check_positive


@dataclass(frozen=True)
class Ray:
    """Which Ray, by the address that `ray.init` takes; None is one of this machine's own, which ends with the command.

    `gpus` is the share of a GPU, or the number of GPUs, that each worker takes.
    """

    address: str | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        check_nonnegative("Ray", "gpus", self.gpus)
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise HeadstartError(f"Ray(gpus={self.gpus}): a share of one GPU, such as 0.25, or whole ones")


@dataclass(frozen=True)
class Slurm:
    """What a job of Slurm is given: where and how long it runs, and its share of a node.

    `cpus` groups train at once in one job. The cluster "local" is submitit's own executor, on this machine.
    """

    partition: str | None = None
    minutes: int = 60
    memory: float = 4.0
    cpus: int = 1
    gpus: int = 0
    cluster: str = "slurm"

    def __post_init__(self) -> None:
        check_count("Slurm", "minutes", self.minutes)
        check_positive("Slurm", "memory", self.memory)
        check_count("Slurm", "cpus", self.cpus)
        check_count("Slurm", "gpus", self.gpus, 0)
