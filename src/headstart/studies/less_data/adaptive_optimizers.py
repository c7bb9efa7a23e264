"""AdamW removes the small-vs-large gap of MLPs, across tasks and depths.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 29 (a-d)
Claim     Under AdamW, which is much less sensitive to the scale of a layer than (stochastic) gradient descent, a small
          set is not faster than a large one.
Setting   The arms of Fig. 2 under AdamW with beta1 = 0.9 and PyTorch's weight decay of 0.01 (the paper states no
          decay). Parity without biases at depths 2, 4 and 6: a fixed set of N samples against everything;
          y = He_3(<w*, x>) with biases at depth 2: 100 steps on few samples, then many, against many throughout.
Measured  The restricted mean number of steps to 95% accuracy, or to a loss of 0.3 Var(y), small over large. "Closes the
          gap" means a ratio above 0.9 and 80% arrivals, declared beforehand. Learning rate and beta2 in {0.8, 0.9,
          0.95, 0.999} are tuned jointly by the same endpoint on 16 other seeds, a grid of ratio 1.2 extended for each
          beta2 until its best rate is inside, and narrowed by half on 2, 4, 8 and 16 seeds. 95% paired bootstrap.
Shrunk    The paper uses full batches throughout. The laptop preset does so at depth 2 on parity, with d = 18, and on
          the single-index model; depths 4 and 6 have batches of 1024 and fresh samples, as depth 2 has beside it. The
          desk preset has full batches alone, at every depth with 8 seeds, and 8 that choose: a set of 2^16 is
          everything at depths 4 and 6, as deeper networks have no kernel for the exact population, and their runs end
          once settled.
Tried     Batches of 128 came first in version 0.1. Under them parity of depth 6 was not reached by either side, and
          0.72 [0, 0.89] came out at depth 2 by mean curves. Under batches of 1024 the claim was that neither side is
          faster, within 0.9 to 1.1; the paper says that the gap is closed, so it is one-sided now. With 32
          seeds depth 4 was undecided, 0.80 [0.66, 0.99]; batches of 1024 have 128 since.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.units import Batch, FullBatch, Settled
from headstart.lab.panels import Panel, arms_of, draw_panels, small_and_large
from headstart.models import MLP
from headstart.optimizers import AdamW
from headstart.plans import Fixed, Online
from headstart.run import Run
from headstart.studies.less_data import (
    FEW_SEEDS,
    FULL_BATCH,
    PAPER_TITLE,
    FullBatchKnobs,
    gd_panel,
    index_run,
    parity_run,
    two_phases,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# (depth, the first rate of its sweep)
Depths = tuple[tuple[int, float], ...]
FINDING = (
    "Under AdamW the ratio of steps, small over large, is {depth2} on parity at depth 2, {depth4} at depth 4 and "
    "{depth6} at depth 6, and {index} on the single-index model. That AdamW closes the gap {depth2.says}, "
    "{depth4.says}, {depth6.says} and {index.says}, in this order."
)


@dataclass(frozen=True)
class Knobs(FullBatchKnobs):
    """Depths with full batches and with large ones, lengths in steps, where each sweep begins; decay and betas."""

    weight_decay: float = 0.01
    beta2: tuple[float, ...] = (0.8, 0.9, 0.95, 0.999)
    depths: Depths = ((2, 0.01), (4, 0.007), (6, 0.005))
    deep_large_samples: int | None = None
    adam_steps: int = 400
    batch: int = 1024
    batch_factor: int = 4
    batch_dim: int = 20
    batch_steps: int = 400
    batch_depths: Depths = ((2, 0.02), (4, 0.01), (6, 0.007))
    adam_index_steps: int = 300
    adam_index_rate: float = 0.03


PRESETS = {
    "smoke": Knobs(
        **FULL_BATCH["smoke"],
        beta2=(0.9, 0.999),
        depths=((2, 0.05),),
        adam_steps=40,
        batch=64,
        batch_factor=1,
        batch_dim=6,
        batch_steps=40,
        batch_depths=((2, 0.05), (4, 0.05), (6, 0.05)),
        adam_index_steps=120,
    ),
    "laptop": Knobs(**FULL_BATCH["laptop"], depths=((2, 0.01),), adam_steps=200, batch_factor=8),
    "desk": Knobs(**FULL_BATCH["laptop"] | FEW_SEEDS, deep_large_samples=2**16, adam_steps=200, batch_depths=()),
    "paper": Knobs(**FULL_BATCH["paper"]),
}


def panels(k: Knobs) -> list[Panel]:
    """Parity at every depth and the single-index model, with full batches; then with large ones."""

    def adaptive(run: Run) -> Run:
        return replace(run, optimizer=AdamW(lr=1.0, weight_decay=k.weight_decay))

    panel = partial(gd_panel, beta2=k.beta2)
    dim, degree, size = k.gd_parity_dim, k.gd_parity_degree, k.gd_parity_samples
    few, many = k.gd_index_samples
    out = []
    for depth, rate in k.depths:
        everything = k.deep_large_samples if depth > 2 else None
        large = Fixed(everything) if everything else Online()
        run = adaptive(parity_run(dim, degree, FullBatch(), k.adam_steps, MLP(k.width, depth, bias=False)))
        if depth > 2:
            run = replace(run, budget=replace(run.budget, settled=Settled(k.accuracy)))
        out.append(
            panel(
                name=f"gd_depth{depth}",
                title=f"full batch, ({dim},{degree})-parity, depth {depth}",
                run=run,
                rates=(rate, 1.44 * rate),
                lines=small_and_large(Fixed(size), large, (f"{size:,} samples", f"{everything or 2**dim:,} points")),
                target=k.accuracy,
            )
        )
    out.append(
        panel(
            name="gd_index",
            title=f"full batch, single index, d = {k.single_index_dim}",
            run=adaptive(index_run(k.single_index_dim, FullBatch(), k.adam_index_steps, MLP(k.width))),
            rates=(k.adam_index_rate, 1.44 * k.adam_index_rate),
            lines=small_and_large(two_phases(few, many), Fixed(many), (f"{few:,}, then {many:,}", f"{many:,} samples")),
            target=k.relative_loss,
        )
    )
    for depth, rate in k.batch_depths:
        model = MLP(k.width, depth, bias=False)
        out.append(
            panel(
                seeds_factor=k.batch_factor,
                name=f"batch_depth{depth}",
                title=f"batch {k.batch}, ({k.batch_dim},{degree})-parity, depth {depth}",
                run=adaptive(parity_run(k.batch_dim, degree, Batch(k.batch), k.batch_steps, model)),
                rates=(rate, 1.44 * rate),
                lines=small_and_large(Fixed(size), Online(), (f"{size:,} samples", "fresh samples")),
                target=k.accuracy,
            )
        )
    return out


def claims(k: Knobs) -> list[lab.Claim]:
    """No gap, in every panel; of each depth the claim with full batches is primary, if there is one."""
    full = [f"depth{depth}" for depth, _ in k.depths]
    out = []
    for panel in panels(k):
        how, _, what = panel.name.partition("_")
        copy = how == "batch" and what in full
        claim = panel.closes(
            "small",
            "large",
            "AdamW closes the gap on MLP, across tasks and depths (Fig. 29)",
            "AdamW leaves no gap",
            kind=lab.Kind.SECONDARY if copy else lab.Kind.PRIMARY,
        )
        out.append(replace(claim, id=panel.name if copy else what))
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 29."""
    draw_panels(picture, results, panels(results.knobs), columns=3)


STUDY = lab.Study(
    name="less_data/adaptive_optimizers",
    title="AdamW removes the small-vs-large gap of MLPs",
    paper=PAPER_TITLE,
    figures="Fig. 29 (a-d)",
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 8.0, "desk": 60.0, "paper": 900.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp",),
)
