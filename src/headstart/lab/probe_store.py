"""What a probe keeps: one small SQLite file of finished runs, and checkpoints of those under way beside it."""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from headstart.core.encoding import canonical, identity
from headstart.core.errors import HeadstartError
from headstart.lab.probe_factory import asking, source_file
from headstart.lab.probe_problem import Problem, Split, fetch, seeded
from headstart.lab.probe_training import ProbeCurve, ProbeRun
from headstart.lab.store import default_path

_APPLICATION = 0x48535042  # "HSPB": written into the file, so that no other SQLite file is taken for one
_TABLE = """create table if not exists runs (
    key text primary key, probe text, arm text, lr real, seed integer, diverged integer, steps integer,
    curve blob, digest blob)"""


def fingerprint(problem: Problem, data: Split, factory: Any, device: str, seen: Sequence[float]) -> str:
    """What a problem is known by: it changes with the code, the rows, the model, the optimizer and their first numbers.

    The code is the file that defines the factory. Of the rows, those of a TensorDataset all count, of others 64. `seen`
    are the test metrics of the first steps, of which four digits count.
    """
    code = source_file(factory)
    with seeded(0), asking("Problem(model=...)"):
        model = problem.model()
    optimizer = problem.build_optimizer(model.parameters(), problem.lr)
    parts = {
        "code": None if code is None else hashlib.sha256(code.read_bytes()).hexdigest(),
        "rows": [len(problem.dataset), data.num_train, sum(num for num, _ in data.test), rows_digest(problem)],
        "model": [f"{name} {tuple(p.shape)} {p.dtype}" for name, p in model.named_parameters()],
        "optimizer": f"{type(optimizer).__qualname__} {getattr(optimizer, 'defaults', None)}",
        "batch": problem.batch_size,
        "device": device,
        "seen": [f"{value:.4g}" for value in seen],
    }
    return identity(canonical(parts))


def rows_digest(problem: Problem) -> str:
    """What rows are known by: those of a TensorDataset all count, of others 64."""
    import torch

    rows = hashlib.blake2b(digest_size=16)
    for tensor in _tensors(_some_rows(problem)):
        rows.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
        rows.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return rows.hexdigest()


def _some_rows(problem: Problem) -> Any:
    from torch.utils.data import TensorDataset

    if isinstance(problem.dataset, TensorDataset):
        return list(problem.dataset.tensors)
    rows = np.unique(np.linspace(0, len(problem.dataset) - 1, 64).astype(int)).tolist()
    return fetch(problem, problem.dataset, rows)


def _tensors(batch: Any) -> Iterator[Any]:
    """The tensors in a batch, however nested, in order."""
    import torch

    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, list | tuple) or hasattr(batch, "values"):
        for part in batch.values() if hasattr(batch, "values") else batch:
            yield from _tensors(part)


def default_folder() -> Path:
    """The folder "probes" beside the lab's store."""
    store = default_path()
    return (store if store.is_dir() else store.parent) / "probes"


class ProbeStore:
    """The finished runs of probes. Without a path they are kept in memory, and nothing is written.

    A path that is a folder holds one file per probe, called by its fingerprint.
    """

    def __init__(self, path: str | os.PathLike[str] | None, probe: str, seed: int) -> None:
        self.probe, self.seed, self.path = probe, seed, None
        if path is not None:
            self.path = Path(path).expanduser()
            if self.path.is_dir() or not self.path.suffix:
                self.path = self.path / f"{probe}.sqlite"
        with self._named():
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            # Each statement is a transaction of its own: what was put is there, whatever ends the process.
            self.database = sqlite3.connect(self.path or ":memory:", timeout=60, isolation_level=None)
            self._check_ours()
            self.database.execute(_TABLE)

    def _check_ours(self) -> None:
        (number,) = self.database.execute("pragma application_id").fetchone()
        (tables,) = self.database.execute("select count(*) from sqlite_master").fetchone()
        if number != _APPLICATION and (number or tables):
            self.database.close()
            raise HeadstartError(f"--store {self.path}: this file is no store of probes; name another, or a folder")
        if number != _APPLICATION:
            self.database.execute(f"pragma application_id = {_APPLICATION}")

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Faults of SQLite and the system name the file and what to do."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise HeadstartError(
                f"--store {self.path}: {error}; free space, change permissions, or name another with --store PATH"
            ) from None

    def key(self, run: ProbeRun) -> str:
        """What a run is known by: the problem, the split, the arm, the rate, the seed, the records and its branch."""
        branch = [] if run.branch is None else [list(astuple(run.branch))]
        parts = [self.probe, self.seed, run.arm.code, run.lr, run.seed, list(run.records), *branch]
        return identity(canonical(parts))

    def get(self, run: ProbeRun) -> ProbeCurve | None:
        """A finished run; None if it is not there, or is damaged and must be trained again."""
        with self._named():
            row = self.database.execute(
                "select curve, diverged, steps, digest from runs where key = ?", (self.key(run),)
            ).fetchone()
        if row is None or _digest(self.key(run), *row[:3]) != row[3]:
            return None
        return ProbeCurve(tuple(np.frombuffer(row[0], dtype="<f8").tolist()), bool(row[1]), row[2])

    def put(self, run: ProbeRun, found: ProbeCurve) -> None:
        """Keep a finished run; its checkpoint goes."""
        key, blob = self.key(run), np.asarray(found.curve, dtype="<f8").tobytes()
        values = (blob, int(found.diverged), found.steps)
        with self._named():
            self.database.execute(
                "insert or replace into runs (key, probe, arm, lr, seed, curve, diverged, steps, digest) "
                "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (key, self.probe, run.arm.name, run.lr, run.seed, *values, _digest(key, *values)),
            )
            checkpoint = self.checkpoint(run)
            if checkpoint is not None:
                checkpoint.unlink(missing_ok=True)

    def checkpoint(self, run: ProbeRun) -> Path | None:
        """Where a run under way is saved; None in memory."""
        return None if self.path is None else Path(f"{self.path}.checkpoints") / f"{self.key(run)}.pt"

    def close(self, finished: bool = False) -> None:
        """Close the file; when the probe is finished, checkpoints that a kill left behind go."""
        self.database.close()
        if self.path is not None and finished:
            shutil.rmtree(f"{self.path}.checkpoints", ignore_errors=True)


def _digest(key: str, blob: bytes, diverged: int, steps: int) -> bytes:
    return hashlib.blake2b(key.encode() + bytes(blob) + f"{diverged} {steps}".encode(), digest_size=16).digest()
