"""Studies: a grid of arms, its claims and its figure. One file per figure or table of a paper."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.metric import Metric
from headstart.core.trace import Status, Summary, Traces
from headstart.lab.claims import Checked, Claim, check_claim
from headstart.lab.ledger import Edition
from headstart.lab.simulation import Arrays, Simulation, check_names, missing
from headstart.lab.store import Keep, Store
from headstart.lab.sweep import FIRST_SELECTION_SEED, RateOf, Search, Sweep, Tuned, selection_seeds, with_rate
from headstart.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Side(StrEnum):
    """Which side of the small-vs-large gap an arm is on; figures draw small warm and large cold."""

    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Arm:
    """One line of a figure: a cell whose learning rate is still open, and where the search for it begins.

    Without a sweep it keeps the rate it has; with `RateOf` it has the one that another arm's sweep chooses. An arm that
    is cheap to train may use `seeds_factor` times the study's seeds.
    """

    name: str
    label: str
    run: Run
    sweep: Sweep | RateOf | None
    side: Side
    keep: Keep = Keep.CURVES
    seeds_factor: int = 1

    def claim_seeds(self, knobs: Any) -> list[int]:
        """The seeds its claims are computed on."""
        return list(range(knobs.first_seed, knobs.first_seed + knobs.num_seeds * self.seeds_factor))

    @property
    def search(self) -> Search:
        """The search for its learning rate, which is over at once if it has no sweep of its own."""
        return Search(self.run, self.sweep if isinstance(self.sweep, Sweep) else None)

    def selection_seeds(self, knobs: Any) -> list[int]:
        """The seeds its learning rate is chosen on, disjoint from those of claims."""
        return list(selection_seeds(knobs.num_selection_seeds * self.seeds_factor))


@dataclass(frozen=True)
class Knobs:
    """What every study lets its user set: how many seeds claims use, and how many choose the learning rates.

    Claims use seeds from `first_seed` on: another one replicates a study on seeds that no one has looked at, at the
    same learning rates.
    """

    num_seeds: int = 16
    num_selection_seeds: int = 4
    first_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_seeds", "num_selection_seeds"):
            least = 2 if name == "num_seeds" else 1
            if getattr(self, name) < least:
                raise HeadstartError(f"{name}={getattr(self, name)}: use at least {least}")
        if not 0 <= self.first_seed < FIRST_SELECTION_SEED // 2:
            raise HeadstartError(f"first_seed={self.first_seed}: use 0 to {FIRST_SELECTION_SEED // 2 - 1}")


@dataclass(frozen=True)
class Results:
    """What a study's claims and figure are computed from: stored traces, stored simulations and nothing else."""

    arms: Mapping[str, Arm]
    summaries: Mapping[str, Sequence[Summary]]
    traces: Mapping[str, Traces]
    tuned: Mapping[str, Tuned]
    knobs: Any
    simulations: Mapping[str, Arrays] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)

    def metric(self, arm: str) -> Metric:
        """The leading metric of an arm's task."""
        if arm not in self.arms:
            raise HeadstartError(f"there is no arm {arm!r}; the study has {', '.join(self.arms)}")
        return self.arms[arm].run.task.metrics[0]

    def finals(self, arm: str) -> NDArray[np.float64]:
        """The last value of the leading test metric, [seeds]; diverged runs are at chance."""
        self.metric(arm)
        return np.array([summary.final for summary in self.summaries[arm]])

    def num_diverged(self, arm: str) -> int:
        """How many of an arm's runs did not finish."""
        return sum(summary.status is not Status.FINISHED for summary in self.summaries[arm])

    def curves(self, arm: str) -> NDArray[np.float64]:
        """The leading test metric, [seeds, records]; diverged runs are at chance from then on."""
        metric = self.metric(arm)
        if arm not in self.traces:
            raise HeadstartError(f"arm {arm!r} keeps summaries only and has no curves")
        return self.traces[arm].stack(f"test_{metric.name}", metric.chance)


def nothing(knobs: Any) -> tuple[()]:
    """No arms, or no simulations."""
    return ()


@dataclass(frozen=True)
class Study:
    """A named experiment. The functions take the knobs of a preset; the docstring is the method section.

    It trains its arms, computes its simulations, or both.
    """

    name: str
    title: str
    paper: str
    figures: str
    presets: Mapping[str, Any]
    minutes: Mapping[str, float]
    claims: Callable[[Any], Sequence[Claim]]
    figure: Callable[[Results], "Figure"]
    arms: Callable[[Any], Sequence[Arm]] = nothing
    simulations: Callable[[Any], Sequence[Simulation]] = nothing
    doc: str = ""
    tags: tuple[str, ...] = ()
    file: str | None = None

    @property
    def command(self) -> str:
        """What `headstart run` calls it: its name, or the file it was read from."""
        return self.file or self.name

    def knobs(self, preset: str = "laptop", settings: Mapping[str, str] | None = None) -> Any:
        """The knobs of a preset, some of them set anew. Values are JSON, or plain words."""
        if preset not in self.presets:
            raise HeadstartError(f"--preset {preset}: {self.name} has {', '.join(self.presets)}")
        base = self.presets[preset]
        known = {f.name: f.type for f in fields(base)}
        values = asdict(base)
        for name, text in (settings or {}).items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=3) or sorted(known)
                raise HeadstartError(
                    f"--set {name}={text}: {self.name} has no such knob; did you mean {' or '.join(near)}?"
                )
            values[name] = _parse(text)
        return _validated(type(base), values, settings or {})

    def validate(self, knobs: Any) -> None:
        """Build every arm, simulation and claim, so that a mistake is met before anything is trained."""
        swept = {arm.name: not isinstance(arm.sweep, RateOf) for arm in self.arms(knobs)}
        arms = list(swept)
        for arm in self.arms(knobs):
            if isinstance(arm.sweep, RateOf) and not swept.get(arm.sweep.arm, False):
                own = ", ".join(name for name in arms if swept[name])
                raise HeadstartError(f"arm {arm.name!r} has the rate of {arm.sweep.arm!r}; arms with their own: {own}")
        check_names(self.simulations(knobs))
        for claim in self.claims(knobs):
            for name in getattr(claim.estimate, "arms", ()):
                if name not in arms:
                    raise HeadstartError(f"claim {claim.id!r} names the arm {name!r}; there are {', '.join(arms)}")

    def check(self, results: Results) -> list[Checked]:
        """Every claim, computed."""
        return [check_claim(claim, results) for claim in self.claims(results.knobs)]


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _validated(kind: type, values: dict[str, Any], settings: Mapping[str, str]) -> Any:
    """The knobs, every type checked by pydantic."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        said = f"--set {name}={settings.get(name, values.get(name))}: " if name else ""
        raise HeadstartError(said + first["msg"].removeprefix("Value error, ")) from None


# Called with (runs, what of them to keep, a title): sees to it that they are in the store.
Train = Callable[[list[Run], Keep, str], None]
# Called with simulations: the same for them.
Simulate = Callable[[Sequence[Simulation]], None]


def gather(study: Study, knobs: Any, store: Store, train: Train, simulate: Simulate) -> Results:
    """A study's results from the store, calling `train` and `simulate` for what may be missing.

    First the simulations; then the sweeps of all arms, extended until every best rate is inside its grid. An arm whose
    rate is known, by its own sweep or another's, trains its claim seeds beside the sweeps that go on, since those alone
    would leave cores idle.
    """
    arms = {arm.name: arm for arm in study.arms(knobs)}
    lenders = {name: arm.sweep.arm for name, arm in arms.items() if isinstance(arm.sweep, RateOf)}
    parts = {simulation.name: simulation.part for simulation in study.simulations(knobs)}
    if parts:
        simulate(study.simulations(knobs))

    def train_arms(wanted: list[tuple[Arm, list[Run], list[int]]], title: str) -> None:
        for keep in dict.fromkeys(arm.keep for arm, _, _ in wanted):
            chosen = [(cells, seeds) for arm, cells, seeds in wanted if arm.keep is keep]
            train([run.at(seed) for cells, seeds in chosen for run in cells for seed in seeds], keep, title)

    def summaries_of(arm: Arm, run: Run) -> list[Summary]:
        return store.summaries(run.cell, arm.selection_seeds(knobs))

    def claim_runs() -> list[tuple[Arm, list[Run], list[int]]]:
        return [(arm, [arm.run], arm.claim_seeds(knobs)) for arm in chosen.values()]

    searches = {name: arm.search for name, arm in arms.items() if name not in lenders}
    tuned: dict[str, Tuned] = {}
    chosen: dict[str, Arm] = {}
    while len(chosen) < len(arms):
        searching = {name: search for name, search in searches.items() if name not in tuned}
        cells = [(arms[name], search.needed(), arms[name].selection_seeds(knobs)) for name, search in searching.items()]
        train_arms([*cells, *claim_runs()], f"learning rates, {len(searching)} of {len(arms)} arms")
        tuned |= {name: s.tuned() for name, s in searching.items() if s.learn(partial(summaries_of, arms[name]))}
        tuned |= {name: tuned[lender].lent() for name, lender in lenders.items() if lender in tuned}
        chosen = {
            name: replace(arm, run=with_rate(arm.run, tuned[name].rate, tuned[name].beta2))
            for name, arm in arms.items()
            if name in tuned
        }
    train_arms(claim_runs(), f"{len(arms)} arms at their best rate")
    return Results(
        arms=chosen,
        summaries={name: store.summaries(arm.run.cell, arm.claim_seeds(knobs)) for name, arm in chosen.items()},
        traces={
            name: store.cell_traces(arm.run.cell, arm.claim_seeds(knobs), {"study": study.name, "arm": name})
            for name, arm in chosen.items()
            if arm.keep is Keep.CURVES
        },
        tuned={name: tuned[name] for name in arms},
        knobs=knobs,
        simulations={name: store.simulation(part) for name, part in parts.items()},
        parts=parts,
    )


def stored(study: Study, preset: str, knobs: Any, store: Store) -> Results:
    """A study's results from the store alone."""

    def refuse(lacking: int, what: str) -> None:
        if lacking:
            raise HeadstartError(
                f"{study.name} --preset {preset} is not complete in store {store.path}: {lacking} {what} are missing; "
                f"run: headstart run {study.command} --preset {preset}"
            )

    def no_training(runs: list[Run], keep: Keep, title: str) -> None:
        refuse(sum(run.seed not in store.seeds(run.cell, keep) for run in runs), "runs")

    return gather(study, knobs, store, no_training, lambda sims: refuse(len(missing(sims, store)), "simulations"))


def edition(study: Study, preset: str, knobs: Any) -> Edition:
    """A study as it is run: the key of its sessions and reports."""
    return Edition(study.name, preset, json.dumps(asdict(knobs), sort_keys=True))
