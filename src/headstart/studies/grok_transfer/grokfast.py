"""GrokFast beside AdamW and beside transfer, each tuned with the same budget.

Paper     Let Me Grok For You, Section 4.2 and Fig. 8; Lee et al., Grokfast (2024), Algorithms 1 and 2
Claim     Amplifying the slow part of the gradient generalises sooner than AdamW alone; transfer sooner still.
Setting   As in `fnn_to_fnn` on addition, from scratch: AdamW; AdamW with GrokFast's exponential mean (decay 0.98,
          strength 2); with its window (the last 100 gradients, strength 5). Beside them transfer. Neither paper states
          decay and strength for this task; these are the defaults of GrokFast's authors, and knobs.
Measured  The restricted mean epoch of 95% on test pairs and the time gap. 95% paired bootstrap over seeds. All four
          try the same combinations of initial scale, rate and decay on the same seeds. Users of GrokFast ask what is
          left of it at a matched rate, since it adds up to `strength` times the gradient to itself: so AdamW also has
          the very settings that were chosen for GrokFast, once at its rate and once at 1 + strength times its rate.
          Adam divides by the size of the gradient, so the first is the match where gradients change slowly.
Where     The paper compares on a two-layer Transformer; that comparison is in `fnn_to_transformer`.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.roles import Role
from headstart.methods import GradientFilter, LayerScale
from headstart.methods.gradient_filter import Mean
from headstart.studies.grok_transfer import (
    PAPER_TITLE,
    ModularKnobs,
    arm,
    draw_grokking,
    fewer,
    target_model,
    transfer,
    weak_source,
)
from headstart.studies.grok_transfer.fnn_to_fnn import LAPTOP as LAPTOP_SIZES
from headstart.studies.grok_transfer.fnn_to_fnn import SMOKE as SMOKE_SIZES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(ModularKnobs):
    """The decay and strength of the exponential mean, and the length and strength of the window."""

    ema_decay: float = 0.98
    ema_strength: float = 2.0
    window: int = 100
    window_strength: float = 5.0


PAPER = Knobs(num_seeds=16)
LAPTOP = Knobs(**vars(LAPTOP_SIZES))
SMOKE = Knobs(**vars(SMOKE_SIZES), window=10)
FINDING = (
    "Tuned alike, GrokFast takes {ema_vs_adamw} of AdamW's epochs to 95% with its exponential mean and "
    "{window_vs_adamw} with its window: that the mean is faster {ema_vs_adamw.says}. The time gap by transfer is "
    "{transfer_gap} of GrokFast's."
)


def arms(k: Knobs) -> list[lab.Arm]:
    """AdamW, both filters, transfer; and AdamW at the settings of the exponential mean."""
    adamw = arm(k, "adamw", "AdamW", target_model(k), colour=lab.cold())
    scale = adamw.run.methods
    filters = {
        "ema": GradientFilter(decay=k.ema_decay, strength=k.ema_strength),
        "window": GradientFilter(kind=Mean.WINDOW, window=k.window, strength=k.window_strength),
    }
    triple = LayerScale(rate=dict.fromkeys((Role.EMBEDDING, Role.HIDDEN, Role.READOUT), 1 + k.ema_strength))
    lent = lab.RateOf("ema")
    return [
        adamw,
        *(
            replace(adamw, name=name, label=f"GrokFast, {name}", colour=c, run=replace(adamw.run, methods=(*scale, f)))
            for (name, f), c in zip(filters.items(), ("#7A5195", "#2F8F5B"), strict=True)
        ),
        arm(
            k,
            "transfer",
            "transfer",
            target_model(k, k.weak_dim),
            start=transfer(weak_source(k)),
            colour=lab.warm(),
        ),
        replace(adamw, name="matched", label="AdamW, settings of ema", sweep=lent, colour=lab.cold(1)),
        replace(
            adamw,
            name="raised",
            label=f"the same at {1 + k.ema_strength:g} times the rate",
            sweep=lent,
            colour="#777777",
            run=replace(adamw.run, methods=(*scale, triple)),
        ),
    ]


def claims(k: Knobs) -> list[lab.Claim]:
    """Filters against AdamW, tuned and matched; transfer against filters."""

    def time(small: str, large: str, what: str, paper: str, kind: lab.Kind = lab.Kind.SECONDARY) -> lab.Claim:
        ratio = f"{what}: the ratio of epochs to {k.accuracy:.0%}"
        return fewer(f"{small}_vs_{large}", ratio, paper, lab.TimeRatio(small, large, k.accuracy), kind)

    faster = "39,890 iterations against 910 (Lee et al., a Transformer, its baseline untuned)"
    return [
        time("ema", "adamw", "GrokFast (ema) is faster than AdamW, both tuned", faster, lab.Kind.PRIMARY),
        time("window", "adamw", "GrokFast (window) is faster than AdamW", "39,890 against 790 (Lee et al.)"),
        time("ema", "matched", "GrokFast (ema) is faster than AdamW at its settings", "not compared"),
        time("ema", "raised", "GrokFast (ema) is faster than AdamW at the raised rate", "not compared"),
        time("transfer", "ema", "transfer is faster than GrokFast (ema)", "faster (Fig. 8)", lab.Kind.PRIMARY),
        fewer(
            "transfer_gap",
            "the time gap by transfer, over that of GrokFast (ema)",
            "46 against 1119 epochs (Fig. 8, a Transformer): 0.04",
            lab.TimeGapRatio("transfer", "ema", k.accuracy),
            lab.Kind.PRIMARY,
        ),
        fewer(
            "transfer_cost",
            f"the FLOPs to {k.accuracy:.0%} with weak models and restarts, over those of GrokFast (ema)",
            "not compared",
            lab.TimeRatio("transfer", "ema", k.accuracy, "flops", total=True),
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """The tuned arms on the left, those at the settings of the exponential mean on the right."""
    picture.set_size_inches(9.6, 4.0)
    left, right = picture.subplots(1, 2)
    k = results.knobs
    draw_grokking(left, results, ["adamw", "ema", "window", "transfer"], f"each tuned, p = {k.modulus}", k.accuracy)
    draw_grokking(right, results, ["matched", "raised", "ema"], "at the settings of ema", k.accuracy)


STUDY = lab.Study(
    name="grok_transfer/grokfast",
    title="GrokFast, tuned on both sides",
    paper=PAPER_TITLE,
    figures="Fig. 8 (an FNN in place of its Transformer)",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 8.0, "paper": 6000.0},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp", "grokking"),
)
