"""What of the transfer does it: the values of the table, its rank, or what it says of each symbol.

Paper     Let Me Grok For You, Fig. 15 (a-c), Appendix A.4.2; shuffled and frozen tables are ours
Claim     The information in the weak table is what removes the delay. A product A B with random factors, or one whose A
          has the weak rows in another order, does not.
Setting   As in `fnn_to_fnn` on addition. (a) A and B random. (b) A B merged into one table on the way. (c) A weak model
          with as many dimensions as the target, whose whole table is the start of the target's. Shuffled: the rows of
          the weak table in another order, so the same values and rank, and nothing said of a symbol. Frozen: A stays
          as the weak model left it, and B is trained.
Measured  The time gap and the restricted mean epoch of 95% on test pairs. 95% paired bootstrap over seeds. Every arm
          tries the same combinations of settings on the same seeds, but for two: the frozen table takes the settings of
          the transfer, which can only hold it back, and the merged arm goes on at fixed settings.
Errata    The caption of 15a names "Figure 6 Right", which is the Transformer of Fig. 8; it is in `fnn_to_transformer`.
          What 15b and 15c should show is not said; here (b) is read as: merging loses nothing, and (c) as: a weak model
          of the target's dimension is no better a source.
Shrunk    As in `fnn_to_fnn`; the merging comes at epoch 20 instead of 100, which is before the target generalises.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.methods import InitScale, MergeEmbedding
from headstart.optimizers import AdamW
from headstart.run import From, Step
from headstart.studies.grok_transfer import (
    PAPER_TITLE,
    ModularKnobs,
    arm,
    draw_grokking,
    fewer,
    target_model,
    transfer,
    weak_run,
    weak_source,
)
from headstart.studies.grok_transfer.fnn_to_fnn import LAPTOP as LAPTOP_SIZES
from headstart.studies.grok_transfer.fnn_to_fnn import SMOKE as SMOKE_SIZES
from headstart.tasks import Operation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(ModularKnobs):
    """When A B is merged, and the initial scale, rate and decay of that arm."""

    merge_step: int = 100
    merged: tuple[float, float, float] = (0.3, 0.005, 3.0)


PAPER = Knobs(num_seeds=16)
LAPTOP = Knobs(**vars(LAPTOP_SIZES), merge_step=20, merged=(0.7, 0.01, 1.0))
SMOKE = Knobs(**vars(SMOKE_SIZES), merge_step=10, merged=(0.7, 0.01, 0.3))
# Merged or not, the target ends at the same accuracy up to so much; declared before the runs.
NOTHING_LOST = lab.Within(-0.05, 0.05)
FINDING = (
    "Against a table whose rows are shuffled the weak table takes {shuffled_time} of the epochs to 95%, and against a "
    "product of random factors {random_time}: that the information counts {shuffled_time.says}. With the weak table "
    "frozen the epochs are {frozen_time} of those with random factors."
)


def arms(k: Knobs) -> list[lab.Arm]:
    """The target by transfer, and with each control."""
    low_rank, source = target_model(k, k.weak_dim), weak_source(k)
    frozen = replace(low_rank, embedding=replace(low_rank.embedding, fixed=True))  # type: ignore[type-var]
    wide = weak_run(replace(k, weak_dim=k.dim), validated=False)
    by_transfer = arm(k, "addition_transfer", "transfer", low_rank, start=transfer(source), colour=lab.warm())
    init, rate, decay = k.merged
    settled = replace(
        by_transfer.run, methods=(InitScale(init),), optimizer=AdamW(rate, weight_decay=decay), start=transfer(source)
    )
    merging = From(settled, Step(k.merge_step), MergeEmbedding())
    merged = replace(settled, model=target_model(k), methods=(), start=merging)
    return [
        by_transfer,
        arm(k, "random", "random A B (15a)", low_rank, colour=lab.cold(1)),
        arm(k, "shuffled", "weak rows shuffled", low_rank, start=transfer(source, shuffled=True), colour="#7A5195"),
        replace(
            arm(k, "frozen", "weak table frozen", frozen, start=transfer(source), colour=lab.warm(1)),
            sweep=lab.RateOf("addition_transfer"),
        ),
        arm(k, "same_dim", "weak model as wide (15c)", target_model(k), start=transfer(wide), colour="#777777"),
        lab.Arm("settled", "transfer, fixed settings", settled, None, lab.warm()),
        lab.Arm("merged", f"merged at epoch {k.merge_step} (15b)", merged, None, "#2F8F5B"),
    ]


def claims(k: Knobs) -> list[lab.Claim]:
    """The weak table against each control."""
    new, out = "addition_transfer", []
    rows = [
        ("shuffled", "rows in another order", "not tried", lab.Kind.CONTROL),
        ("random", "random factors A and B", "Fig. 15a (no number)", lab.Kind.PRIMARY),
        ("same_dim", "a weak model of the target's dimension", "Fig. 15c (no number)", lab.Kind.SECONDARY),
    ]
    for other, what, paper, kind in rows:
        for name, estimate in (
            ("time", lab.TimeRatio(new, other, k.accuracy)),
            ("gap", lab.TimeGapRatio(new, other, k.accuracy)),
        ):
            of = f"epoch of {k.accuracy:.0%}" if name == "time" else "time gap"
            chosen = kind if name == "time" else lab.Kind.SECONDARY
            out.append(
                fewer(f"{other}_{name}", f"the {of} by transfer, over that with {what}", paper, estimate, chosen)
            )
    out.append(
        fewer(
            "frozen_time",
            f"with the weak table frozen the epoch of {k.accuracy:.0%}, over that with random factors",
            "not tried for tables; U is fixed in Theorem 3.2",
            lab.TimeRatio("frozen", "random", k.accuracy),
        )
    )
    out.append(
        lab.Claim(
            id="merged_final",
            statement="merged into one table, the target ends within 0.05 of the accuracy that it has unmerged",
            paper="Fig. 15b (no number)",
            rule=NOTHING_LOST,
            estimate=lab.FinalDifference("merged", "settled"),
            kind=lab.Kind.PRIMARY,
        )
    )
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """The controls on the left, the merged table on the right."""
    picture.set_size_inches(9.6, 4.2)
    left, right = picture.subplots(1, 2, width_ratios=(1.5, 1))
    k = results.knobs
    tuned = ["addition_transfer", "random", "shuffled", "frozen", "same_dim"]
    draw_grokking(left, results, tuned, f"modular {Operation.ADDITION}, p = {k.modulus}", k.accuracy)
    draw_grokking(right, results, ["settled", "merged"], "A B merged on the way", k.accuracy)


STUDY = lab.Study(
    name="grok_transfer/controls",
    title="What of the transfer does it",
    paper=PAPER_TITLE,
    figures="Fig. 15 (a-c)",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 15.0, "paper": 6000.0},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp", "grokking"),
)
