"""The trainings of a microscope one after another: what is stored is read, what is missing is trained and stored."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.core.state import Arrays
from headstart.lab.progress import Progress
from headstart.lab.stability_behaviour import Judge, Trained, dataset_rows
from headstart.lab.stability_report import StabilityCost, StabilityReport, exponents_of
from headstart.lab.stability_store import StabilityStore
from headstart.lab.stability_training import (
    NOTHING,
    Change,
    Kind,
    Look,
    PairRows,
    ProblemTraining,
    Rows,
    Training,
    draw_pair,
    put_state,
)
from headstart.lab.stability_verdict import Compared, settle
from headstart.measures import compare_pair


@dataclass(frozen=True)
class Asked:
    """What is trained: pairs at each size, and the disturbances of copies at the largest."""

    seed: int
    sizes: tuple[int, ...]
    pairs: int
    copies: int
    disturbances: tuple[Change, ...]
    record: tuple[int, ...]
    num_alphas: int
    num_rows: int

    def groups(self) -> Iterator[tuple[int, int, list[Change]]]:
        """Of every S its size, its number, and how its copies differ; the control comes first."""
        largest = self.sizes[-1]
        for size in reversed(self.sizes):
            for pair in range(max(self.pairs, self.copies)):
                changes = [NOTHING] if (size, pair) == (largest, 0) else []
                changes += [Change(Kind.SWAP)] if pair < self.pairs else []
                changes += self.disturbances if size == largest and pair < self.copies else ()
                if changes:
                    yield size, pair, changes


@dataclass(frozen=True)
class Base:
    """The network of S that copies are compared with, its weights on the way, and its metric before any step."""

    trained: Trained
    seen: dict[int, Arrays]
    start: float

    def flat(self) -> Arrays:
        """All arrays, to be saved."""
        seen = {f"{step}|{name}": value for step, arrays in self.seen.items() for name, value in arrays.items()}
        return self.trained.flat() | seen | {"start": np.array(self.start)}

    @classmethod
    def unflat(cls, arrays: Arrays) -> "Base":
        """The inverse of `flat`, without the module."""
        seen: dict[int, Arrays] = {}
        rest = {name: value for name, value in arrays.items() if "|" not in name}
        for name in arrays.keys() - rest.keys():
            step, _, weight = name.partition("|")
            seen.setdefault(int(step), {})[weight] = arrays[name]
        return cls(Trained.unflat(rest), seen, float(rest["start"]))


class Session:
    """One question under way."""

    def __init__(self, training: Training, judge: Judge, asked: Asked, store: StabilityStore) -> None:
        self.training, self.judge, self.asked, self.store = training, judge, asked, store
        self.num_trainings = self.num_stored = self.done = 0
        self.repeats = True

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.store.close()

    def run(self, shown: Progress, within: float | None) -> StabilityReport:
        """All comparisons, and what they say."""
        began, asked = time.monotonic(), self.asked
        groups = list(asked.groups())
        total = sum(len(changes) + 1 for *_, changes in groups)
        shown.begin(f"stability: {total} trainings", float(total))
        found = [each for group in groups for each in self._group(*group, shown)]
        unable = ""
        if not self.repeats:
            unable = "two trainings of the same rows and seed differ by themselves: make the training deterministic"
        elif not self.training.can_look:
            unable = "train_fn(rows, seed) shows no steps: let it take look, and call look(step, model) before each"
        compared = tuple(sorted(found, key=lambda each: (each.size, each.change.kind != Kind.NONE, each.pair)))
        cost = StabilityCost(self.num_trainings, len(found), self.num_stored, time.monotonic() - began)
        settled = settle(compared, within, unable)
        return StabilityReport(compared, asked.sizes, exponents_of(compared, asked.sizes), settled, within, cost)

    def _group(self, size: int, pair: int, changes: list[Change], shown: Progress) -> Iterator[Compared]:
        """The comparisons of one S with its copies; of a training that does not repeat itself, no nudges."""
        drawn = draw_pair(self.asked.seed, size, pair, self.asked.num_rows)
        base: Base | None = None
        text = f"{size} rows, pair {pair}"
        for change in changes:
            if change.disturbs and not self.repeats:
                continue
            key = self._key(size, pair, str(change.kind), change.step, change.size)
            stored = self.store.get(key)
            if stored is None:
                base = self._base(drawn) if base is None else base
                self._advance(shown, text)
                compared = self._compare(base, drawn, change)
                self.store.put(key, compared.to_json())
            else:
                self.num_stored += 1
                compared = Compared.of_json(stored)
            if change.kind is Kind.NONE:
                self.repeats = compared.is_same
            self.done += 1
            self._advance(shown, text)
            yield compared
        self.done += 1
        self.store.forget(self._key(size, pair))

    def _advance(self, shown: Progress, text: str) -> None:
        shown.update(float(self.done), text)

    def _key(self, size: int, pair: int, *change: Any) -> str:
        asked = self.asked
        steps = self.training.steps if isinstance(self.training, ProblemTraining) else None
        return self.store.key([asked.seed, steps, size, pair, list(asked.record), asked.num_alphas, *change])

    def _base(self, drawn: PairRows) -> Base:
        """The network of S: kept from a call that was interrupted, or trained now."""
        key = self._key(drawn.size, drawn.pair)
        kept = self.store.trained(key)
        if kept is not None:
            return Base.unflat(kept)
        look = Look(self.asked.record, drawn.seed, device=self.training.device)
        trained = self._train(drawn.rows, drawn.seed, look)
        base = Base(trained, look.seen, self._start(trained, look))
        self.store.keep_trained(key, base.flat())
        return base

    def _start(self, trained: Trained, look: Look) -> float:
        """The metric before any step; not a number where nobody looked."""
        if trained.state is None or look.start is None:
            return float("nan")
        put_state(trained.module, look.start)
        start = self.judge.metric(trained.module)
        put_state(trained.module, trained.state)
        return start

    def _compare(self, base: Base, drawn: PairRows, change: Change) -> Compared:
        """Train a copy, and look at what differs."""
        rows = drawn.swapped if change.kind is Kind.SWAP else drawn.rows
        look = Look(self.asked.record, drawn.seed, change, base.seen, self.training.device)
        copy = self._train(rows, drawn.seed, look)
        if change.disturbs and not look.disturbed:
            raise HeadstartError(
                f"stability({change.kind}_steps={change.step}): train_fn called look(step, model) up to step "
                f"{look.last}, and not with this one; give another, or call it before every step"
            )
        values = compare_pair(base.trained.behaviour, copy.behaviour)
        values["barrier"] = self.judge.barrier(base.trained, copy, self.asked.num_alphas)
        values["start"], values["end"] = base.start, self.judge.summary(base.trained)
        return Compared(drawn.size, drawn.pair, drawn.seed, change, values, look.distances)

    def _train(self, rows: Rows, seed: int, look: Look) -> Trained:
        """Train on these rows of those to train on, which are others in the data set where some are held out."""
        own = rows if self.judge.data is None else dataset_rows(self.judge.data, rows)
        returned = self.training(own, seed, look)
        self.num_trainings += 1
        return self.judge.trained(returned, own)
