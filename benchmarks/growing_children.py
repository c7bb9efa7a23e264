"""Contestants of `benchmarks.growing`: children of one parent, stacked, alone, in two processes, by Hugging Face."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch

import headstart as hs
from headstart.core.state import State
from headstart.engines import Job
from headstart.engines.ensemble import Ensemble
from headstart.engines.loop import _Training, one_thread
from headstart.engines.lower import lower
from headstart.engines.member import Member
from headstart.methods.site import Site
from headstart.studies.growing import GrowingKnobs, grown, operators, parent


@dataclass(frozen=True)
class Setting:
    """Children of a parent of one width, `depth` layers that become `depth` + `layers`."""

    width: int
    depth: int = 12
    layers: int = 4
    children: int = 16
    length: int = 32
    batch: int = 16
    symbols: int = 64

    @property
    def name(self) -> str:
        """In the table."""
        return f"d = {self.width}, {self.depth} -> {self.depth + self.layers} layers"

    @cached_property
    def jobs(self) -> list[Job]:
        """The children at their start, those of the study's first operators, again from the first if they are few."""
        knobs = GrowingKnobs(
            text="made", width=self.width, depth=self.depth, layers=self.layers, length=self.length, batch=self.batch,
            symbols=self.symbols,
        )  # fmt: skip
        source, space = parent(knobs), operators(knobs)
        fresh, found = lower(source).fresh(), []
        for number in range(self.children):
            run = grown(source, space[number % len(space)], hs.Budget(10**6, 10**6))
            signature = run.task.signature
            site = Site(source.model, signature, run.model, signature, lower(run).fresh())
            assert isinstance(run.start, hs.From)
            found.append(Job(run, State(run.start.via(fresh, site).weights)))
        return found

    def members(self, chosen: slice, engine: str) -> list[Member]:
        """Some of the children, for an engine."""
        return [Member.of(number, job, engine) for number, job in enumerate(self.jobs[chosen])]


class Contestant(Protocol):
    """Takes steps of all children."""

    def advance(self, num_steps: int) -> float:
        """So many steps of every child; the processor seconds of the slowest process."""
        ...

    def close(self) -> None:
        """End its processes."""
        ...


class OneProcess:
    """Takes steps here."""

    def advance(self, num_steps: int) -> float:
        """So many steps of every child."""
        began = time.process_time()
        with one_thread():
            self.take(num_steps)
        return time.process_time() - began

    def take(self, num_steps: int) -> None:
        """Train."""
        raise NotImplementedError

    def close(self) -> None:
        """It has none."""


class Stacked(OneProcess):
    """In stacks as large as the engine makes them, one stack after another."""

    def __init__(self, setting: Setting, chosen: slice = slice(None)) -> None:
        engine = Ensemble()
        chunks = engine._chunks(setting.members(chosen, engine.name))
        self.cohorts = [engine._cohort(members, "cpu") for members in chunks]

    def take(self, num_steps: int) -> None:
        for cohort in self.cohorts:
            cohort.advance(range(len(cohort.rows)), cohort.step, cohort.step + num_steps)

    def weights(self) -> list[dict[str, np.ndarray]]:
        """Of every child."""
        return [cohort.state(row).weights for cohort in self.cohorts for row in cohort.rows]


class Alone(OneProcess):
    """One child after another in the loop engine."""

    def __init__(self, setting: Setting, chosen: slice = slice(None)) -> None:
        self.trainings = [_Training(member, "cpu") for member in setting.members(chosen, "loop")]

    def take(self, num_steps: int) -> None:
        for training in self.trainings:
            training.advance((0,), training.step, training.step + num_steps)

    def weights(self) -> list[dict[str, np.ndarray]]:
        """Of every child."""
        return [training.state(0).weights for training in self.trainings]


class TwoProcesses:
    """Half of the children in each of two processes, which are idle while others take their turn."""

    def __init__(self, kind: type[Stacked] | type[Alone], setting: Setting) -> None:
        half = -(-setting.children // 2)
        context = multiprocessing.get_context("spawn")
        self.pools = [
            ProcessPoolExecutor(1, context, _begin, (kind, setting, chosen))
            for chosen in (slice(0, half), slice(half, None))
        ]

    def advance(self, num_steps: int) -> float:
        """So many steps of every child; the processor seconds of the slower process."""
        return max(call.result() for call in [pool.submit(_advance, num_steps) for pool in self.pools])

    def weights(self) -> list[dict[str, np.ndarray]]:
        """Of every child."""
        return [weights for pool in self.pools for weights in pool.submit(_weights).result()]

    def close(self) -> None:
        """End both."""
        for pool in self.pools:
            pool.shutdown()


_here: Any = None  # the contestant of a process


def _begin(kind: type[Stacked] | type[Alone], setting: Setting, chosen: slice) -> None:
    global _here
    torch.set_num_threads(1)
    _here = kind(setting, chosen)


def _advance(num_steps: int) -> float:
    return float(_here.advance(num_steps))


def _weights() -> list[dict[str, np.ndarray]]:
    return list(_here.weights())


class Peer(OneProcess):
    """One child after another by Hugging Face."""

    def __init__(self, setting: Setting, kind: str) -> None:
        from benchmarks.growing_peer import HuggingFace  # not in processes that do without it: it takes seconds

        run = setting.jobs[0].run
        samples = run.task.sample(0, np.arange(16 * setting.batch, dtype=np.int64))
        batches = torch.from_numpy(samples.x).long().view(16, setting.batch, setting.length)
        maps = [job.run.start.via.layer_map(setting.depth) for job in setting.jobs]
        sizes = setting.width, setting.depth, setting.symbols
        self.children = HuggingFace(kind, *sizes, run.optimizer.lr, batches, maps)

    def take(self, num_steps: int) -> None:
        self.children.advance(num_steps)
