"""The small-vs-large gap of Transformers with mini-batch AdamW, on four tasks.

Paper     Less Data, Faster Training, Section 3 and Fig. 1 (a-d); schedules from Appendix B.1
Claim     Two-layer Transformers reach the target in fewer steps when they repeat smaller sets first. On parity, in
          steps: 6 phases < 100 epochs on 1% of the data < online.
Setting   AdamW (beta1 .9), batch 32 (single index: 128), two layers, no layer normalisation, learned positions.
          (a) (d, k)-parity, encoder, mean-pooled readout, logistic loss; pools of .001 .002 .005 .01 .02 .1 of the
              online samples for 100 50 20 10 10 4 epochs; one pool of .01 for 100 epochs; online.
          (b) y = He_3(<w*, x>), encoder: .005 of the online samples first, then fresh ones, against fresh ones.
          (c) In-context linear regression, 4 features, 15 examples, decoder, loss on the last token: pools of
              .005 .02 .05 .1 for .1 .1 .1 .7 of the steps, against fresh sequences.
          (d) Modular addition of digits, decoder, cross-entropy: the same pools for 20 5 4 6 epochs, against online.
          The paper states neither normalisation, positions, readout, MLP width, weight decay nor (N, p, base).
Measured  Steps of the seed-mean test curve, as its nearest monotone curve, to 95% accuracy or to a loss of
          0.3 Var(y); 95% paired bootstraps over seeds. Learning rates: grid of ratio 1.2 for each arm, extended until
          the best is inside, on seeds that no claim uses; with each beta2 of .8 .9 .95 .999 in the paper preset.
Held out  At (10,6) there are 1024 points in all. With 3000 steps of 32 the 1% pool is 960 samples, about 623 distinct
          points, and the six pools hold about 92, 175, 383, 623, 867 and all of them; so 95% of all points
          means at least 87% of those outside the 1% pool.
Shrunk    Laptop: (10,6) instead of (20,6), width 64 and 4 heads instead of 256 and 8, MLPs of width 64 instead of
          four times the width, 3000 steps, few seeds, beta2 = .95 alone; single index in dimension 24, four coordinates
          a token instead of one, batch 64; in-context 2 features and 6 examples; addition of numbers below 50 modulo
          7. Only (a) was tuned to show the effect.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.plans import Phase, Phases
from headstart.studies.less_data import ACCURACY, PAPER_TITLE, RELATIVE_LOSS, Panel, arms_of, draw_panels
from headstart.studies.less_data._transformers import (
    BETA2,
    FOUR_PHASES,
    Size,
    context_phases,
    context_run,
    in_order,
    index_run,
    modular_run,
    parity_panel,
    parity_run,
    small_and_online,
)
from headstart.tasks import ModularAddition

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Sizes of the tasks and models, lengths in steps, and where the sweeps begin."""

    parity: tuple[int, int] = (20, 6)
    parity_size: tuple[int, int, int, int] = (256, 2, 8, 1024)
    parity_steps: int = 100_000
    parity_rates: tuple[float, float] | None = (2.5e-4, 6.3e-4)
    size: tuple[int, int, int, int] = (64, 2, 4, 256)
    index_dim: int = 50
    index_patch: int = 1
    index_batch: int = 128
    index_steps: int = 10_000
    index_first_steps: int = 800
    index_rates: tuple[float, float] | None = (5e-4, 1.25e-3)
    context: tuple[int, int] = (4, 15)
    context_steps: int = 15_000
    context_rates: tuple[float, float] | None = (5e-4, 1.25e-3)
    modular: tuple[int, int, int] = (1000, 97, 10)
    modular_steps: int = 50_000
    modular_rates: tuple[float, float] | None = (5e-4, 1.25e-3)
    beta2: tuple[float, ...] = BETA2
    accuracy: float = ACCURACY
    relative_loss: float = RELATIVE_LOSS


PAPER = Knobs(num_seeds=32, num_selection_seeds=8)
LAPTOP = Knobs(
    num_seeds=6,
    num_selection_seeds=2,
    parity=(10, 6),
    parity_size=(64, 2, 4, 64),
    parity_steps=3000,
    parity_rates=(1e-3, 1.44e-3),
    size=(32, 2, 2, 32),
    index_dim=24,
    index_patch=4,
    index_batch=64,
    index_steps=2000,
    index_first_steps=200,
    index_rates=(2e-3, 2.88e-3),
    context=(2, 6),
    context_steps=3000,
    context_rates=(2e-3, 2.88e-3),
    modular=(50, 7, 10),
    modular_steps=3000,
    modular_rates=(2e-3, 2.88e-3),
    beta2=(),
)
SMOKE = Knobs(
    num_seeds=2,
    num_selection_seeds=1,
    parity=(4, 2),
    parity_size=(8, 1, 2, 8),
    parity_steps=40,
    parity_rates=None,
    size=(8, 1, 2, 8),
    index_dim=4,
    index_patch=2,
    index_batch=32,
    index_steps=40,
    index_first_steps=10,
    index_rates=None,
    context=(1, 2),
    context_steps=40,
    context_rates=None,
    modular=(10, 2, 10),
    modular_steps=40,
    modular_rates=None,
    beta2=(),
    accuracy=0.55,
    relative_loss=0.99,
)


def panels(k: Knobs) -> list[Panel]:
    """The four panels of Fig. 1."""
    size = Size(*k.size)
    two = Phases((Phase(fraction=0.005, steps=k.index_first_steps), Phase()))
    return [
        parity_panel(
            "parity",
            f"(a) {k.parity}-parity",
            parity_run(*k.parity, k.parity_steps, Size(*k.parity_size)),
            k.parity_rates,
            k.accuracy,
            k.beta2,
        ),
        Panel(
            "index",
            f"(b) single index, d = {k.index_dim}",
            index_run(k.index_dim, k.index_patch, k.index_batch, k.index_steps, size),
            k.index_rates,
            small_and_online(two, "small pool, then fresh"),
            k.relative_loss,
            beta2=k.beta2,
        ),
        Panel(
            "context",
            f"(c) in-context regression, n = {k.context[0]}, k = {k.context[1]}",
            context_run(*k.context, k.context_steps, size),
            k.context_rates,
            small_and_online(context_phases(k.context_steps), "4 phases"),
            k.relative_loss,
            beta2=k.beta2,
        ),
        Panel(
            "modular",
            f"(d) addition below {k.modular[0]} mod {k.modular[1]}",
            modular_run(ModularAddition(*k.modular), k.modular_steps, size),
            k.modular_rates,
            small_and_online(FOUR_PHASES, "4 phases"),
            k.accuracy,
            beta2=k.beta2,
        ),
    ]


def claims(k: Knobs) -> list[lab.Claim]:
    """The order of the three arms of parity, and a gap in each other task."""
    parity, *others = panels(k)
    return [
        *in_order(parity, "6-phase < 100-epoch < online (Fig. 1, 8; no number)"),
        *(panel.faster("small", "online", "a gap (Fig. 1)", "repeating first against online") for panel in others),
    ]


def figure(results: lab.Results) -> "Figure":
    """Fig. 1."""
    return draw_panels(results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/mini_batch_transformers",
    title="The small-vs-large gap of Transformers on four tasks",
    paper=PAPER_TITLE,
    figures="Fig. 1 (a-d)",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.3, "laptop": 15.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
