"""Transformers with the settings of Appendix B.1: runs under AdamW, presets by task, and parity with its arms.

Left open by the paper and chosen here: logistic loss and mean-pooled readout for parity, weight decay 0.01, no layer
normalisation, MLPs of width 64 in the laptop presets and four times the width in the paper ones. Embeddings and
positions are N(0, 1), PyTorch's own: online training arrives there. `open_choices` has N(0, 0.1^2).

The settings of a task are one class of knobs, so that a study has those of the tasks it trains, and runs of the same
settings are the same cells with the same sweep in every study.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.units import Batch, Budget, Settled
from headstart.lab.panels import Line, Panel
from headstart.losses import Logistic
from headstart.models import Readout, Transformer
from headstart.optimizers import AdamW
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Run
from headstart.studies.less_data import ACCURACY, UNSEEN
from headstart.tasks import Parity, Task

NUM_RECORDS = 40
# Arms of parity want rates that differ by a factor of ten. With tries over one of 32 they have the same in every study.
TRIES, PARITY_TRIES = 4, 6
# "Comparable", "mild" and "remains" are ratios of times in here, declared before any run.
SIMILAR = lab.Within(2 / 3, 3 / 2)
SEEDS: dict[str, dict[str, Any]] = {
    "smoke": {"num_seeds": 2, "num_selection_seeds": 1, "beta2": (), "num_test": 256},
    "laptop": {
        "num_seeds": 96,
        "first_seed": UNSEEN,
        "num_selection_seeds": 16,
        "beta2": (),
        "spacing": 2.0,
        "num_test": 512,
    },
    "paper": {"num_seeds": 32, "num_selection_seeds": 8},
}
# Of parity, fractions of the online samples and epochs over each: they fill the online budget exactly.
FRACTIONS, EPOCHS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.1), (100, 50, 20, 10, 10, 4)
SIX_PHASES = Phases(tuple(Phase(fraction=f, epochs=e) for f, e in zip(FRACTIONS, EPOCHS, strict=True)))
# The switch comes before a run arrives: at a tenth of the budget.
TWO_PHASES = Line("two", "2 phases", Phases((Phase(fraction=0.01, epochs=10), Phase())), lab.warm(2))


def transformer(size: tuple[int, int, int, int], **options: Any) -> Transformer:
    """A Transformer of (width, depth, heads, MLP width)."""
    width, depth, heads, mlp_width = size
    return Transformer(width, depth, heads, mlp_width=mlp_width, **{"embedding_std": 1.0, **options})


def decoder(size: tuple[int, int, int, int], **options: Any) -> Transformer:
    """One with a causal mask, read at its last token."""
    return transformer(size, causal=True, readout=Readout.LAST, **options)


def transformer_run(task: Task, model: Transformer, loss: Any, steps: int, target: float, **options: Any) -> Run:
    """AdamW with beta2 = .95 and batches of 32; plans are those of arms, and rates too, unless they are not swept.

    It ends with three records in a row at the target, since all claims are on when it gets there.
    """
    budget = Budget(steps, record_every=max(8, steps // NUM_RECORDS), settled=Settled(target))
    settings = {"optimizer": AdamW(5e-3, beta2=0.95), "batch": Batch(32), **options}
    return Run(task, model, Online(), loss, budget=budget, **settings)


@dataclass(frozen=True)
class AdamKnobs(lab.Knobs):
    """The beta2 that every sweep tries, none keeping .95, the ratio of neighbouring rates, and how many test points.

    A class of knobs for a task has the paper's settings as its defaults, and others by preset in `SMALLER`.
    """

    beta2: tuple[float, ...] = (0.8, 0.9, 0.95, 0.999)
    spacing: float = 1.2
    num_test: int = 4096

    @property
    def sweeps(self) -> dict[str, Any]:
        """At least four rates on 4 seeds, the better half of them on 8, and of these on all."""
        return {"beta2": self.beta2, "spacing": self.spacing, "tries": TRIES, "rungs": (4, 8)}


def presets(kind: type, **own: Mapping[str, Any]) -> dict[str, Any]:
    """smoke, laptop and paper of knobs of class `kind`: the settings of its tasks, then what `own` has for each.

    A desk preset, if `own` has one, changes that of the laptop.
    """

    def built(name: str, over: Mapping[str, Any]) -> Any:
        tasks = [vars(base).get("SMALLER", {}).get(name, {}) for base in kind.__mro__]
        return kind(**SEEDS[name] | {knob: value for task in tasks for knob, value in task.items()} | dict(over))

    out = {name: built(name, own.get(name, {})) for name in SEEDS}
    if "desk" in own:
        out["desk"] = built("laptop", own["desk"])
    return {name: out[name] for name in ("smoke", "laptop", "desk", "paper") if name in out}


@dataclass(frozen=True)
class ParityKnobs(AdamKnobs):
    """(d, k)-parity: (width, depth, heads, MLP width), length in steps, where sweeps begin, target.

    Where `rates` is None nothing is swept and all arms have `rate`.
    """

    parity: tuple[int, int] = (20, 6)
    size: tuple[int, int, int, int] = (256, 2, 8, 1024)
    steps: int = 100_000
    rates: tuple[float, float] | None = (2.5e-4, 6.3e-4)
    rate: float = 5e-3
    accuracy: float = ACCURACY

    SMALLER: ClassVar = {
        "smoke": {"parity": (4, 2), "size": (8, 1, 2, 8), "steps": 40, "rates": None, "accuracy": 0.55},
        "laptop": {"parity": (20, 3), "size": (32, 2, 4, 64), "steps": 2000, "rates": (1.4e-3, 2.8e-3)},
    }

    def parity_run(self, **options: Any) -> Run:
        """An encoder, one of two symbols per token; options are the model's."""
        task = Parity(*self.parity, num_test=self.num_test)
        model, optimizer = transformer(self.size, **options), AdamW(self.rate, beta2=0.95)
        return transformer_run(task, model, Logistic(), self.steps, self.accuracy, optimizer=optimizer)

    def parity_panel(
        self,
        name: str = "parity",
        title: str = "",
        lines: tuple[Line, ...] | None = None,
        run: Run | None = None,
        tries: int = PARITY_TRIES,
    ) -> Panel:
        """The three arms, or others; those that no other study has may have fewer tries."""
        lines, run, title = lines or self.three_arms(), run or self.parity_run(), title or f"{self.parity}-parity"
        sweeps = {**self.sweeps, "tries": tries}
        return Panel(name, title, run, self.rates, lines, self.accuracy, **sweeps)

    @property
    def pool(self) -> int:
        """1% of the online samples, 32 per step."""
        return max(1, round(0.01 * 32 * self.steps))

    def three_arms(self) -> tuple[Line, Line, Line]:
        """6 phases; 100 epochs on a pool of 1% of the online samples; online."""
        return (
            Line("six", "6 phases", SIX_PHASES, lab.warm()),
            Line("hundred", "100 epochs", Fixed(self.pool), lab.warm(1)),
            Line("online", "online", Online(), lab.cold()),
        )


def similar(panel: Panel, one: str, other: str, paper: str, kind: lab.Kind = lab.Kind.SECONDARY) -> lab.Claim:
    """The claim that line `one` takes about as long as line `other`."""
    return lab.Claim(
        id=f"{panel.arm(one)}_like_{other}",
        statement=f"{panel.title}: steps to {panel.goal}, {panel.label(one)} over {panel.label(other)}, within 2/3 to "
        "3/2",
        paper=paper,
        rule=SIMILAR,
        estimate=panel.ratio(one, other),
        kind=kind,
    )


@dataclass(frozen=True)
class OfTimes:
    """A number made of the restricted mean times to `target` of several arms, in their order, with its interval.

    Where it chooses an arm, as the fastest, it does so anew in each resample of the seeds. The arms have one budget,
    whose end is the horizon; where no run of any arrives there is no number.
    """

    arms: tuple[str, ...]
    target: float
    number: Callable[[NDArray[np.float64]], float]

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The number with its interval."""
        lab.check_paired(results, self.arms)
        ratio = lab.TimeRatio(self.arms[0], self.arms[-1], self.target)
        times = np.array([ratio.times(results, arm) for arm in self.arms])
        arrived = times < ratio.common_horizon(results)
        if not arrived.any():
            return lab.Estimate(*(float("nan"),) * 3, arrivals=0.0)
        found = lab.bootstrap(lambda rows: float(self.number(times[:, rows].mean(axis=1))), times.shape[1])
        return replace(found, arrivals=float(arrived.mean(axis=1).min()))
