"""Growing in the middle of a decaying rate, on UL2's mixture: does LAG choose well, by the loss and by what it can do?

Paper     Landscape-Aware Growing, Section 5.4.1 (UL2), Fig. 5.4, Tables 5.2 and C.1
Claim     On another objective, optimizer and schedule LAG again chooses an operator near the best, nearer than the one
          that keeps the loss best, which is a random block on top, and than the last block on top; and what the grown
          models can do downstream ranks as their losses do.
Setting   A pre-norm decoder of 12 layers, 60% of its windows to be continued from their first symbol, 20% from a
          prefix, 20% with spans cut out; the rate warms up and falls along a cosine, and the model grows to 16 layers
          three quarters on, by the thirty operators of `growing/thirty_operators`, without a break in the schedule.
Measured  As there. In the place of one-shot tasks three cloze accuracies on held-out text, which no operator was
          chosen by: of symbols in spans cut out, of what continues a prefix, and of the last symbol of a window. Paired
          differences between LAG's child and others; 95% by the bootstrap over parents.
Expected  The thesis: relative regret .09 (LAG@2000), .92 (LAG@0 and random on top), .66 (last on top); a transition
          near step 1000 of 100,000; LAG second to the oracle alone on all three tasks.
Open      Prefixes are read from left to right here, and UL2's mode tokens are left out. Whether the thesis' model has
          norms before or after is not stated; T5's, which UL2 follows, are before.
Shrunk    Laptop: characters of 18 books, width 32, windows of 32, batch 16, AdamW, 1200 steps before and 400 after.
          Paper: 1.1 billion parameters, Adafactor; C4, Wikipedia, GitHub and arXiv from a user's own files.
Data      `headstart data get gutenberg`; for the paper's, `headstart data get c4 --from FOLDER` and so on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import headstart.lab as lab
from headstart.core.errors import check_count
from headstart.measures import Cloze
from headstart.models import Norm, Transformer
from headstart.optimizers import Adafactor, AdamW, Cosine, PartOf, WarmUp
from headstart.studies.growing import (
    PAPER_TITLE,
    SMOKE,
    Floats,
    GrowingKnobs,
    Growth,
    MeanOver,
    children,
    draw_against_final,
    draw_by_step,
    draw_heatmap,
    growths,
    language,
    name_of,
    operators,
    parent,
    relative_regret,
    share_left,
    spearman,
)
from headstart.studies.growing.thirty_operators import found_transition, lag_less
from headstart.tasks import Causal, Mixture, Prefix, Spans

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headstart.run import Run

OTHERS = {"0": "LAG@0", "last": "the last block on top", "random": "a random block on top"}
THESIS = {
    "spans": {"0": "25.23 and 21.82", "last": "25.23 and 21.59", "random": "25.23 and 21.82"},
    "prefix": {"0": "13.44 and 12.19", "last": "13.44 and 12.39", "random": "13.44 and 12.19"},
    "last": {"0": "7.60 and 6.89", "last": "7.60 and 6.90", "random": "7.60 and 6.89"},
}
TASKS = {
    "spans": ("symbols of spans cut out", "TyDi QA"),
    "prefix": ("what continues a prefix", "Trivia QA"),
    "last": ("the last symbol of a window", "LAMBADA"),
}
FINDING = (
    "In the middle of a decaying rate the child that LAG chooses has a relative regret of {regret_lag} (thesis: .09), "
    "the one that keeps the loss best {regret_0} (.92), the last block on top {regret_last} (.66)."
)


@dataclass(frozen=True)
class Knobs(GrowingKnobs):
    """`mlp_width` 0 is four times the width; `cloze` is the number of windows of each accuracy."""

    orders: int = 1
    rate: float = 2e-3
    pretraining: int = 1200
    steps: int = 400
    mlp_width: int = 0
    adafactor: bool = False
    cloze: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("knobs", "cloze", self.cloze)


def measures(k: Knobs) -> dict[str, Cloze]:
    """What stands for the downstream tasks."""
    return {
        "spans": Cloze(Spans(), k.cloze),
        "prefix": Cloze(Prefix(), k.cloze),
        "last": Cloze(Causal(), k.cloze, last=True),
    }


def optimizer(k: Knobs, first: int) -> Any:
    """Its schedule is that of the whole training, from a step on."""
    schedule = PartOf(WarmUp(k.warm_up, Cosine(0.1)), k.pretraining + k.steps, first)
    return Adafactor(k.rate, schedule=schedule) if k.adafactor else AdamW(k.rate, schedule=schedule)


def source(k: Knobs) -> "Run":
    """The parent, in the first three quarters of the schedule."""
    run = parent(k)
    assert isinstance(run.model, Transformer)
    model = replace(run.model, post_norm=False, pre_norm=True, norm=Norm.RMS, mlp_width=k.mlp_width or None)
    return replace(run, task=language(k, Mixture()), model=model, optimizer=optimizer(k, 0))


def arms(k: Knobs) -> list[lab.Arm]:
    """The parent and its children, with what they can do at the end."""
    looks = tuple(measures(k).values())
    return children(k, source(k), run={"optimizer": optimizer(k, k.pretraining)}, measures=looks)


@dataclass(frozen=True)
class ClozeGain:
    """An accuracy of LAG's child less that of another choice, the mean over growths; bootstrap over parents.

    Beside it: the share of the way from the worst child to the best that LAG's child goes.
    """

    task: str
    other: str

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The difference."""
        return _over_parents(results, self.task, lambda g, a: float(a[g.lag(g.knobs.lag)] - a[_chosen(g, self.other)]))

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """Where LAG's child stands among all."""
        place = _over_parents(
            results, self.task, lambda g, a: float((a[g.lag(g.knobs.lag)] - a.min()) / max(np.ptp(a), 1e-12))
        )
        return {"of the way from the worst child to the best": place}


def _chosen(growth: Growth, other: str) -> int:
    top = {"last": "duplicate", "random": "random"}
    return growth.lag(0) if other == "0" else growth.on_top(top[other])


def accuracies(results: lab.Results, task: str) -> Floats:
    """At the end: [operators, orders, parents]."""
    k = results.knobs
    look = measures(k)[task]
    return np.array(
        [
            [results.traces[name_of(o, order)].measured(look)["accuracy"][:, -1] for order in range(k.orders)]
            for o in operators(k)
        ]
    )


def _over_parents(results: lab.Results, task: str, of: Callable[[Growth, Floats], float]) -> lab.Estimate:
    found = accuracies(results, task)
    values = np.array(
        [
            np.mean([of(growth, found[:, order, number]) for order, growth in enumerate(orders)])
            for number, orders in enumerate(growths(results))
        ]
    )
    return lab.bootstrap(lambda rows: float(values[rows].mean()), len(values))


def claims(k: Knobs) -> list[lab.Claim]:
    """Table 5.2, Fig. 5.4, and Table C.1 by cloze accuracies."""
    primary, secondary = lab.Kind.PRIMARY, lab.Kind.SECONDARY

    def regret(of: Callable[[Growth], int]) -> MeanOver:
        return MeanOver(lambda g: g.regret(of(g)))

    return [
        lab.Claim("regret_lag", f"relative regret of LAG@{k.lag}, {share_left(k)}: below .2", ".0895 at 2%",
                  lab.below(0.2), regret(lambda g: g.lag(k.lag)), primary),
        lab.Claim("regret_0", "relative regret of LAG@0: above .5", ".920", lab.above(0.5), regret(lambda g: g.lag(0))),
        lab.Claim("regret_last", "relative regret of the last block on top: above .2", ".658", lab.above(0.2),
                  regret(lambda g: g.on_top("duplicate"))),
        lab.Claim("regret_random", "relative regret of a random block on top: above .5", ".920", lab.above(0.5),
                  regret(lambda g: g.on_top("random"))),
        *(lab.Claim(f"lag_less_{other}", f"relative regret of LAG@{k.lag} less that of {words}: below 0",
                    {"0": "-.83", "last": "-.57", "random": "-.83"}[other], lab.below(0.0),
                    MeanOver(partial(lag_less, other)), primary) for other, words in OTHERS.items()),
        lab.Claim("spearman_0", "Spearman of the loss at step 0 with the final one: below 0", "below 0 in Fig. 5.4",
                  lab.below(0.0), MeanOver(lambda g: g.correlation(0))),
        lab.Claim("spearman_lag", f"Spearman of the loss at step {k.lag} with the final one: above .5",
                  "strong after the transition", lab.above(0.5), MeanOver(lambda g: g.correlation(k.lag)), primary),
        lab.Claim("transition", f"the ranking changes once, before step {k.lag}", "near step 1000 of 100,000",
                  lab.Within(0.0, float(k.lag)), found_transition, secondary),
        lab.Claim("best_at_start", "share of growths whose best child at step 0 is a random block on top: above .5",
                  "it is", lab.above(0.5), MeanOver(lambda g: float(g.lag(0) == g.on_top("random")))),
        *(lab.Claim(f"{task}_{other}", f"accuracy on {words}, LAG's child less {OTHERS[other]}: above 0",
                    f"{stands}: {THESIS[task][other]}", lab.above(0.0), ClozeGain(task, other), secondary)
          for task, (words, stands) in TASKS.items() for other in OTHERS),
    ]  # fmt: skip


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 5.4, the regret, and losses against each cloze accuracy."""
    picture.set_size_inches(11, 6.4)
    (start, heatmap, with_final), (regret, one, two) = picture.subplots(2, 3)
    found, k = growths(results), results.knobs
    draw_against_final(start, found[0][0], 0)
    start.legend(loc="lower right")
    draw_heatmap(heatmap, found)
    draw_by_step(with_final, found, spearman, "Spearman")
    with_final.set_title("Spearman with the final loss")
    draw_by_step(regret, found, relative_regret, "LAG")
    regret.set_title("Relative regret of LAG")
    for ax in (with_final, regret):
        ax.axvline(k.lag, color="0.5", linewidth=0.8, linestyle=":")
    for ax, task in ((one, "spans"), (two, "last")):
        ax.plot(found[0][0].final, accuracies(results, task)[:, 0, 0], "o", markersize=4)
        ax.set_xlabel("final loss")
        ax.set_title(f"Accuracy on {TASKS[task][0]}")


PAPER = Knobs(
    num_seeds=2, text="c4+wikipedia+github+arxiv", shares=(57.0, 17.0, 17.0, 9.0), symbols=32_000, length=1280,
    windows=1024, width=2048, heads=32, mlp_width=5120, batch=256, rate=0.01, warm_up=10_000, pretraining=300_000,
    steps=100_000, record_every=100, lag=2000, trailing=1, adafactor=True, cloze=4096,
)  # fmt: skip
STUDY = lab.Study(
    name="growing/ul2",
    title="Growing on UL2's mixture",
    paper=PAPER_TITLE,
    figures="Fig. 5.4, Tables 5.2, C.1",
    presets={"smoke": Knobs(**{**SMOKE, "orders": 1, "length": 12}, cloze=16), "laptop": Knobs(), "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 10.0, "paper": 2e9},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer", "real data"),
)
