"""Studies: a grid of arms, its claims and its figure. One file per figure or table of a paper."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.metric import Metric
from headstart.core.trace import Traces
from headstart.lab.claims import Checked, Claim, check_claim
from headstart.lab.store import Store
from headstart.lab.sweep import Search, Sweep, Tuned, selection_seeds, with_rate
from headstart.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Side(StrEnum):
    """Which side of the small-vs-large gap an arm is on; figures draw small warm and large cold."""

    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Arm:
    """One line of a figure: a cell whose learning rate is still open, and where the search for it begins."""

    name: str
    label: str
    run: Run
    sweep: Sweep
    side: Side


@dataclass(frozen=True)
class Knobs:
    """What every study lets its user set: how many seeds claims use, and how many choose the learning rates."""

    num_seeds: int = 16
    num_selection_seeds: int = 4

    def __post_init__(self) -> None:
        for name in ("num_seeds", "num_selection_seeds"):
            least = 2 if name == "num_seeds" else 1
            if getattr(self, name) < least:
                raise HeadstartError(f"{name}={getattr(self, name)}: use at least {least}")


@dataclass(frozen=True)
class Results:
    """What a study's claims and figure are computed from: stored traces and nothing else."""

    arms: Mapping[str, Arm]
    traces: Mapping[str, Traces]
    tuned: Mapping[str, Tuned]
    knobs: Any

    def metric(self, arm: str) -> Metric:
        """The leading metric of an arm's task."""
        if arm not in self.arms:
            raise HeadstartError(f"there is no arm {arm!r}; the study has {', '.join(self.arms)}")
        return self.arms[arm].run.task.metrics[0]

    def curves(self, arm: str) -> NDArray[np.float64]:
        """The leading test metric, [seeds, records]; diverged runs are at chance from then on."""
        metric = self.metric(arm)
        return self.traces[arm].stack(f"test_{metric.name}", metric.chance)


@dataclass(frozen=True)
class Study:
    """A named experiment. The functions take the knobs of a preset; the docstring is the method section."""

    name: str
    title: str
    paper: str
    figures: str
    presets: Mapping[str, Any]
    minutes: Mapping[str, float]
    arms: Callable[[Any], Sequence[Arm]]
    claims: Callable[[Any], Sequence[Claim]]
    figure: Callable[[Results], "Figure"]
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
        """Build every arm and claim, so that a mistake is met before anything is trained."""
        arms = [arm.name for arm in self.arms(knobs)]
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


Train = Callable[[list[Run], str], None]


def gather(study: Study, knobs: Any, store: Store, train: Train) -> Results:
    """A study's results from the store, calling `train(runs, title)` for what may be missing.

    First the sweeps of all arms, extended until every best rate is inside its grid; then the claim seeds.
    """
    arms = {arm.name: arm for arm in study.arms(knobs)}
    searches = {name: Search(arm.run, arm.sweep) for name, arm in arms.items()}
    seeds = list(selection_seeds(knobs.num_selection_seeds))
    open_ = list(searches)
    while open_:
        needed = [run.at(seed) for name in open_ for run in searches[name].needed() for seed in seeds]
        train(needed, f"learning rates, {len(open_)} of {len(arms)} arms")
        open_ = [name for name in open_ if not searches[name].learn(lambda run: store.cell_traces(run.cell, seeds))]
    tuned = {name: search.tuned() for name, search in searches.items()}
    chosen = {name: with_rate(arm.run, tuned[name].rate) for name, arm in arms.items()}
    claim_seeds = list(range(knobs.num_seeds))
    train([run.at(seed) for seed in claim_seeds for run in chosen.values()], f"{len(arms)} arms at their best rate")
    traces = {
        name: store.cell_traces(run.cell, claim_seeds, {"study": study.name, "arm": name})
        for name, run in chosen.items()
    }
    done = {name: replace(arm, run=chosen[name]) for name, arm in arms.items()}
    return Results(done, traces, tuned, knobs)


def stored(study: Study, preset: str, knobs: Any, store: Store) -> Results:
    """A study's results from the store alone."""

    def refuse(runs: list[Run], title: str) -> None:
        missing = sum(run.seed not in store.seeds(run.cell) for run in runs)
        if missing:
            raise HeadstartError(
                f"{study.name} --preset {preset} is not complete in store {store.path}: {missing} runs are missing; "
                f"run: headstart run {study.command} --preset {preset}"
            )

    return gather(study, knobs, store, refuse)


def knobs_json(knobs: Any) -> str:
    """Knobs as canonical JSON."""
    return json.dumps(asdict(knobs), sort_keys=True)
