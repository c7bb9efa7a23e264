"""Which parameters need the small set: some learn from fresh batches, the rest from six phases.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 30
Claim     Of single matrices W_v needs the small set most; W_q and W_k alone hardly matter, and together they do.
Setting   The 6-phase parity run of mini_batch_transformers, except that the named matrices of all layers take their
          gradient from a fresh batch at the same weights; one AdamW step uses both gradients.
Measured  Steps to 95% of the seed-mean test curve over those of six phases for all parameters; 95% paired bootstraps.
          Compute counts both batches, so an arm's step has twice the samples of the plain arm's: claims are on steps.
Shrunk    Laptop: (10,6), width 64, 3000 steps, few seeds, one fixed learning rate for all arms instead of a sweep;
          five singles and the pair (W_q, W_k) of the paper's pairs.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.roles import Role
from headstart.optimizers import AdamW
from headstart.plans import ByRole
from headstart.studies.less_data import ACCURACY, PAPER_TITLE, Line, Panel, arms_of, draw_panels
from headstart.studies.less_data._transformers import BETA2, SIX_PHASES, Size, parity_panel, parity_run, three_arms

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Task, model, length in steps, and where the sweeps begin."""

    parity: tuple[int, int] = (20, 6)
    size: tuple[int, int, int, int] = (256, 2, 8, 1024)
    steps: int = 100_000
    rates: tuple[float, float] | None = (2.5e-4, 6.3e-4)
    beta2: tuple[float, ...] = BETA2
    accuracy: float = ACCURACY
    rate: float = 4e-4
    singles: tuple[tuple[Role, ...], ...] = (
        (Role.QUERY,),
        (Role.KEY,),
        (Role.VALUE,),
        (Role.PROJECTION,),
        (Role.HIDDEN,),
    )
    pairs: tuple[tuple[Role, ...], ...] = ((Role.QUERY, Role.KEY), (Role.QUERY, Role.VALUE), (Role.KEY, Role.VALUE))


PAPER = Knobs(num_seeds=32, num_selection_seeds=8)
LAPTOP = Knobs(
    num_seeds=6,
    num_selection_seeds=2,
    parity=(10, 6),
    size=(64, 2, 4, 64),
    steps=3000,
    rates=None,
    beta2=(),
    rate=1e-3,
    pairs=((Role.QUERY, Role.KEY),),
)
SMOKE = Knobs(
    num_seeds=2,
    num_selection_seeds=1,
    parity=(4, 2),
    size=(8, 1, 2, 8),
    steps=40,
    rates=None,
    beta2=(),
    accuracy=0.55,
    rate=5e-3,
    singles=((Role.QUERY,), (Role.KEY,), (Role.VALUE,)),
    pairs=((Role.QUERY, Role.KEY),),
)


def panels(k: Knobs) -> list[Panel]:
    """One panel for single matrices and one for pairs; the plain arm is in both and trained once."""
    run = parity_run(*k.parity, k.steps, Size(*k.size))
    run = replace(run, optimizer=AdamW(k.rate, beta2=0.95))
    plain, _, online = three_arms(k.steps)
    out = []
    for name, groups in (("single", k.singles), ("pair", k.pairs)):
        lines = [
            Line("_".join(roles), "fresh: " + ", ".join(roles), lab.Side.LARGE, ByRole(SIX_PHASES, tuple(roles)))
            for roles in groups
        ]
        out.append(
            parity_panel(
                name, f"{k.parity}-parity, {name}s", run, k.rates, k.accuracy, k.beta2, (plain, *lines, online)
            )
        )
    return out


def claims(k: Knobs) -> list[lab.Claim]:
    """Fresh batches for the values, and for queries and keys together, slow six phases; for queries alone hardly."""
    single, pair = panels(k)

    def slower(panel: Panel, line: str, paper: str) -> lab.Claim:
        return lab.Claim(
            id=f"fresh_{line}",
            statement=f"{panel.title}: steps to {panel.goal}, fresh batches for {line} over plain 6 phases, above 1",
            paper=paper,
            rule=lab.above(1.0),
            estimate=panel.ratio(line, "six"),
        )

    return [
        slower(single, "value", "W_v relies on small-set training the most (Fig. 30 left)"),
        slower(pair, "query_key", "a significant slowdown (Fig. 30 right)"),
        *(
            lab.Claim(
                id=f"fresh_{line}",
                statement=f"{single.title}: the same for {line} lies between 2/3 and 3/2",
                paper="the effects on W_q, W_k are mild (Fig. 30 left)",
                rule=lab.Within(2 / 3, 3 / 2),
                estimate=single.ratio(line, "six"),
            )
            for line in ("query", "key")
        ),
    ]


def figure(results: lab.Results) -> "Figure":
    """Fig. 30."""
    return draw_panels(results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/parameter_wise",
    title="Which parameters need the small set",
    paper=PAPER_TITLE,
    figures="Fig. 30",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 10.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
