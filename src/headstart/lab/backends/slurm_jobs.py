"""The jobs of a batch system, through submitit: start workers, ask which are alive, cancel them."""

import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.faults import one_line
from headstart.lab.backends.settings import Slurm
from headstart.lab.backends.slurm_worker import SlurmWorker

# Between the signal that a time limit is near and the end, in seconds.
_SIGNAL_DELAY = 120
# A run that takes longer than the time limit is queued again as often as it takes.
_MOST_REQUEUES = 1000


class Jobs:
    """Jobs of this user, in `folder` with their logs."""

    def __init__(self, folder: Path, slurm: Slurm) -> None:
        self.folder, self.slurm = folder, slurm
        self.handles: dict[str, Any] = {}
        try:
            import submitit
        except ImportError:
            raise HeadstartError(
                '--on slurm: submitit is not installed here; run: pip install "headstart[slurm]"'
            ) from None
        try:
            made = submitit.AutoExecutor(folder, cluster=slurm.cluster, slurm_max_num_timeout=_MOST_REQUEUES)
        except RuntimeError as error:
            raise HeadstartError(
                f"--on slurm: {one_line(str(error))}; run this on a machine that has sbatch and srun"
            ) from None
        made.update_parameters(
            name="headstart",
            timeout_min=slurm.minutes,
            mem_gb=slurm.memory,
            cpus_per_task=slurm.cpus,
            gpus_per_node=slurm.gpus,
            slurm_signal_delay_s=_SIGNAL_DELAY,
            slurm_array_parallelism=1024,
            **({"slurm_partition": slurm.partition} if slurm.partition else {}),
        )
        self.executor = made

    def start(self, worker: SlurmWorker, num: int) -> list[str]:
        """Queue so many workers; the numbers of their jobs."""
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        try:
            with self.executor.batch():
                jobs = [self.executor.submit(worker) for _ in range(num)]
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            raise HeadstartError(f"--on slurm: sbatch refused: {one_line(str(error))}") from None
        self.handles |= {job.job_id: job for job in jobs}
        return [job.job_id for job in jobs]

    def alive(self, ids: Iterable[str]) -> set[str]:
        """Those that wait or run; all, where the batch system does not answer."""
        wanted = set(ids)
        if self.slurm.cluster != "slurm":
            return {job for job in wanted if self._is_running(job)}
        # squeue, not sacct, which submitit asks: clusters without accounting have it too.
        listed = subprocess.run(
            ["squeue", "--noheader", "--array", "--me", "--format=%i %A"], capture_output=True, text=True
        )
        return wanted & set(listed.stdout.split()) if listed.returncode == 0 else wanted

    def _is_running(self, job: str) -> bool:
        if job in self.handles:
            return not self.handles[job].done()
        try:  # a job of the local executor is a process
            return Path(f"/proc/{int(job)}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (ValueError, OSError):
            return False

    def cancel(self, ids: Iterable[str]) -> None:
        """End jobs that have nothing to do any more."""
        for job in ids:
            if job in self.handles:
                with suppress(Exception):
                    self.handles[job].cancel(check=False)
            elif self.slurm.cluster == "slurm":
                subprocess.run(["scancel", job], capture_output=True)

    def reap(self, seconds: float) -> None:
        """Of the local executor: wait so long for the processes that have nothing to do any more."""
        until = time.monotonic() + seconds
        while self.slurm.cluster != "slurm" and self.alive(self.handles) and time.monotonic() < until:
            time.sleep(0.05)
