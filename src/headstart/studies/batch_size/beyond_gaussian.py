"""Inputs that are not Gaussian: where the law of the batch size stops holding.

Paper     Online Learning and Information Exponents, an open question; all its inputs are N(0, I)
Claim     The theory is for isotropic Gaussian inputs. Asked here: does a neuron take the steps that it predicts if
          inputs are signs, have heavy tails, or are correlated?
Setting   y = He_3(<w*, x> / s), w* uniform on the sphere, s the deviation of <w*, x>; one neuron with He_3 on the unit
          sphere, begun cold on the side that can recover; batch d, fresh samples. Signs: independent +-1. Student's t
          with 3, 5 and 10 degrees, coordinate by coordinate, or elliptical: normal vectors of a random length.
          Correlated: normal with eigenvalues j^-a. Squared error and correlation loss.
Measured  Steps to overlap 1/2, the restricted mean over runs in all dimensions, over that on Gaussian inputs. Each arm
          takes the best of the same five rates, by that mean on sixteen other runs. 95% bootstrap over runs. The law
          holds where the ratio is within 0.8 to 1.25, declared before the runs. The control: Gaussian inputs in all
          dimensions over the reduced chain at the same rate.
Expected  Nothing is said in the paper. Along a dense direction independent coordinates add up to a normal, which
          elliptical and correlated inputs do not.
Tried     The laptop preset first ran with 48 runs, and eight to choose rates: both primary claims were undecided, signs
          took 1.26 [1.10, 1.47] and 1.17 [0.87, 1.55] of the steps. It has three times the runs since, on other seeds.
Shrunk    The laptop preset has d = 96, the paper preset 256.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import headstart.lab as lab
from headstart.studies.batch_size import GREY, PAPER_TITLE, StepsRatio, steps_of
from headstart.tasks import Hermite
from headstart.theory import Correlated, DirectRuns, Gaussian, Objective, RandomSigns, RecoveryRuns, StudentT
from headstart.theory.reduced_sgd import ReducedSGD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THE_LAW_HOLDS = lab.Within(0.8, 1.25)
COLOURS = {Objective.MSE: lab.cold(), Objective.CORRELATION: lab.warm()}
LABELS = {Objective.MSE: "squared error", Objective.CORRELATION: "correlation loss"}
FINDING = (
    "On the correlation loss signs take {signs_correlation} of the steps of Gaussian inputs, coordinates with "
    "Student's t of 5 degrees {t5_correlation}, elliptical ones {elliptical5_correlation}, and correlated ones "
    "{power0_5_correlation}; on the squared error {signs_mse}, {t5_mse}, {elliptical5_mse} and {power0_5_mse}. That "
    "the law holds for signs {signs_correlation.says} and {signs_mse.says}."
)


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """The dimension, which is the batch too, how long runs are, and what is tried."""

    dim: int = 256
    steps: int = 2500
    rates: tuple[float, float] = (0.002, 0.02)
    factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    num_choosing: int = 16
    degrees: tuple[float, ...] = (3.0, 5.0, 10.0)
    powers: tuple[float, ...] = (0.25, 0.5, 1.0)


PAPER = Knobs(num_seeds=256, first_seed=1000)
LAPTOP = Knobs(num_seeds=144, first_seed=1000, dim=96, steps=1200, rates=(0.003, 0.03))
SMOKE = Knobs(
    num_seeds=3, dim=12, steps=40, rates=(0.02, 0.1), factors=(0.5, 1.0), num_choosing=2, degrees=(5.0,), powers=(0.5,)
)


def kinds(k: Knobs) -> dict[str, tuple[str, Any]]:
    """The inputs by name, in words and as parts."""
    out: dict[str, tuple[str, Any]] = {"gaussian": ("Gaussian", Gaussian()), "signs": ("signs", RandomSigns())}
    for degrees in k.degrees:
        out[f"t{degrees:g}"] = (f"t, {degrees:g} degrees", StudentT(degrees))
        out[f"elliptical{degrees:g}"] = (f"elliptical t, {degrees:g}", StudentT(degrees, elliptical=True))
    for power in k.powers:
        out[f"power{power:g}".replace(".", "_")] = (f"eigenvalues j^-{power:g}", Correlated(power))
    return out


def process(k: Knobs, loss: Objective, factor: float = 1.0) -> ReducedSGD:
    """One neuron with He_3, batch d."""
    rate = k.rates[loss is Objective.CORRELATION]
    return ReducedSGD(Hermite(3), Hermite(3), k.dim, k.dim, factor * rate, loss)


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """Runs on every kind of inputs and both losses; the chain at every rate, of which the chosen one counts."""
    parts: dict[str, Any] = {}
    for loss in Objective:
        for name, (_, inputs) in kinds(k).items():
            parts[f"{name}_{loss}"] = DirectRuns(
                process(k, loss), inputs, k.factors, k.num_seeds, k.num_choosing, k.steps, seed=k.first_seed
            )
        for factor in k.factors:
            parts[f"chain_{loss}_{factor:g}"] = RecoveryRuns(
                process(k, loss, factor), 8 * k.num_seeds, k.steps, stop_at=0.5, right_side_only=True, seed=k.first_seed
            )
    return parts


@dataclass(frozen=True)
class OverChain:
    """The restricted mean steps on Gaussian inputs in all dimensions over those of the chain at the same rate."""

    loss: Objective
    arms: tuple[str, ...] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval; runs of both are resampled by themselves."""
        k, chosen = results.knobs, float(results.computed[f"gaussian_{self.loss}"]["rate"])
        factor = min(k.factors, key=lambda f: abs(process(k, self.loss, f).rate - chosen))
        direct, chain = (
            steps_of(results, name).restricted for name in (f"gaussian_{self.loss}", f"chain_{self.loss}_{factor:g}")
        )
        rng = np.random.Generator(np.random.Philox(key=0))
        others = [float(chain[rng.integers(0, len(chain), len(chain))].mean()) for _ in range(2000)]
        means = [float(direct[rng.integers(0, len(direct), len(direct))].mean()) for _ in range(2000)]
        low, high = np.quantile(np.array(means) / others, (0.025, 0.975))
        return lab.Estimate(float(direct.mean() / chain.mean()), float(low), float(high))


def claims(k: Knobs) -> list[lab.Claim]:
    """The law for every kind of inputs and both losses, and the control."""
    out = []
    for loss in Objective:
        for name, (words, _) in list(kinds(k).items())[1:]:
            out.append(
                lab.Claim(
                    id=f"{name}_{loss}",
                    statement=f"{words}, {LABELS[loss]}: steps over those on Gaussian inputs are within 0.8 to 1.25",
                    paper="not asked",
                    rule=THE_LAW_HOLDS,
                    estimate=StepsRatio(f"{name}_{loss}", f"gaussian_{loss}"),
                    kind=lab.Kind.PRIMARY if name == "signs" else lab.Kind.SECONDARY,
                )
            )
        out.append(
            lab.Claim(
                id=f"chain_{loss}",
                statement=f"{LABELS[loss]}: Gaussian inputs over the reduced chain are within 0.8 to 1.25",
                paper="the chain is exact in law",
                rule=THE_LAW_HOLDS,
                estimate=OverChain(loss),
                kind=lab.Kind.CONTROL,
            )
        )
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """Steps on every kind of inputs, for both losses; medians and what 95% of the runs lie between."""
    picture.set_size_inches(8.4, 3.8)
    named = kinds(results.knobs)
    for ax, loss in zip(picture.subplots(1, 2, sharey=True), Objective, strict=True):
        for place, name in enumerate(named):
            times = steps_of(results, f"{name}_{loss}")
            low, median, high = np.quantile(times.restricted, (0.025, 0.5, 0.975))
            ax.plot([low, high], [place, place], color=COLOURS[loss], linewidth=1)
            full = times.reached.all()
            ax.plot(median, place, "o", color=COLOURS[loss], fillstyle="full" if full else "none", markersize=5)
        gaussian = np.median(steps_of(results, f"gaussian_{loss}").restricted)
        ax.axvline(gaussian, color=GREY, linestyle=":", linewidth=0.9)
        ax.set(xscale="log", xlabel="steps to overlap 1/2 (hollow: not all arrive)", title=LABELS[loss])
        ax.set_yticks(range(len(named)), [words for words, _ in named.values()])
        ax.set_ylim(len(named) - 0.5, -0.5)


STUDY = lab.Study(
    name="batch_size/beyond_gaussian",
    title="Inputs that are not Gaussian",
    paper=PAPER_TITLE,
    figures="an open question",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 6.0, "paper": 120.0},
    computed=computed,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("theory",),
)
