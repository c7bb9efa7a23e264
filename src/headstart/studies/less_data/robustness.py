"""The small-vs-large gap under other initialisations, activations, samplings and learning rates.

Paper     Less Data, Faster Training, footnote 2 (subsets), Appendix B.1 (Gaussian initial values, activations,
          replacement) and Remark 7 (learning rates for parity)
Claim     The direction of Fig. 2 stays as it is with Gaussian initial values ("we get the same conclusions"), and with
          GELU (single index) and sigmoid (parity); batches without replacement and independent instead of nested
          subsets make no difference; and no learning rate makes the population as fast as the small set.
Setting   The arms of Fig. 2, each with one change. Gaussian: standard deviation 1 / sqrt(fan_in), sqrt(3) times that of
          PyTorch's uniform values. Sigmoid networks have biases. Independent subsets share no sample; the phase that
          follows has a finite set, as under fresh samples there is nothing to nest.
Measured  The restricted mean number of steps to 95% accuracy or a loss of 0.3 Var(y), small over large; 95% paired
          bootstraps over seeds. "No difference" means within 0.9 to 1.1, and within 0.95 to 1.05 a speed-up would be
          none, both declared beforehand. The same endpoint chooses learning rates on 16 other seeds. For the last claim
          the population is trained at every rate of a grid, and the fastest of them, on the claim's own seeds and so in
          its favour, is compared with the small set at the rate that other seeds chose.
Shrunk    As less_data/mini_and_full_batch_mlp, whose arms it shares. The population has rates of 1, 1.4 and 2.1 times
          that which its sweep chose before.
Tried     Sigmoid networks on (20,6)- and (20,4)-parity learned nothing in 3000 to 5000 steps at rates 0.04 to 3 (two
          seeds each; small sets on (20,6), fresh samples on (20,4), also with Gaussian values). (20,3) is learned in
          about 3400 steps at 0.04, so the sigmoid panel has degree 3. In version 0.1 the first grid of the population's
          rates began at 0.24, where it did not reach 95% in 1500 steps; later it had 0.139 and 0.167 too, left
          out as the paper speaks of larger rates, to pay for more seeds. Gaussian values on parity were undecided with
          96 seeds, 0.92 [0.84, 1.01], and held with 192, 0.88 [0.81, 0.94].
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.lab.figures import draw_curve
from headstart.lab.panels import NO_EFFECT, Line, Panel, arms_of, draw_lines
from headstart.models import MLP, Activation, Init
from headstart.optimizers import SGD
from headstart.plans import Fixed, Plan
from headstart.studies.less_data import (
    FIGURE_2,
    PAPER_TITLE,
    Figure2Knobs,
    gd_index,
    gd_parity,
    sgd_index,
    sgd_parity,
    two_phases,
    with_model,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rates = tuple[float, float]
FINDING = (
    "With Gaussian initial values the ratio of steps, small over large, is {sgd_parity_gaussian_small_vs_large} on "
    "parity; with sigmoid {sgd_parity_sigmoid_small_vs_large}, and with GELU on the single-index model "
    "{sgd_index_gelu_small_vs_large}. Over the population at its fastest rate the small set takes "
    "{no_rate_makes_the_population_as_fast}: that no rate makes up for it "
    "{no_rate_makes_the_population_as_fast.says}."
)


@dataclass(frozen=True)
class Knobs(Figure2Knobs):
    """Where the sweeps of other networks begin, the sigmoid panel's degree and length, the population's rates."""

    gaussian_parity_rates: Rates = (0.12, 0.17)
    gaussian_index_rates: Rates = (0.1, 0.14)
    gelu_rates: Rates = (0.12, 0.17)
    sigmoid_degree: int = 3
    sigmoid_steps: int = 5000
    sigmoid_rates: Rates = (0.05, 0.07)
    population_rates: tuple[float, ...] = (0.2, 0.288, 0.4147)


PRESETS = {
    "smoke": Knobs(
        **{**FIGURE_2["smoke"], "sgd_parity_samples": 256},
        gaussian_parity_rates=(0.5, 0.7),
        sigmoid_degree=1,
        sigmoid_steps=60,
        sigmoid_rates=(0.2, 0.4),
        population_rates=(0.4, 0.8),
    ),
    "laptop": Knobs(**FIGURE_2["laptop"]),
    "paper": Knobs(**FIGURE_2["paper"]),
}


def network_panels(k: Knobs) -> list[Panel]:
    """Other initial values and other activations."""
    parity, index, bias = sgd_parity(k), sgd_index(k), k.single_index_bias
    easier = sgd_parity(replace(k, sgd_parity_degree=k.sigmoid_degree, sgd_parity_steps=k.sigmoid_steps))
    gaussian, sigmoid = (
        MLP(k.width, bias=k.parity_bias, init=Init.GAUSSIAN),
        MLP(k.width, activation=Activation.SIGMOID),
    )
    gelu = MLP(k.width, bias=bias, activation=Activation.GELU)
    return [
        with_model(parity, "gaussian", "Gaussian", gaussian, k.gaussian_parity_rates),
        with_model(easier, "sigmoid", "sigmoid", sigmoid, k.sigmoid_rates),
        with_model(index, "gaussian", "Gaussian", replace(gaussian, bias=bias), k.gaussian_index_rates),
        with_model(index, "gelu", "GELU", gelu, k.gelu_rates),
    ]


def _varied(panel: Panel, name: str, label: str, plan: Plan) -> Panel:
    """The panel with its small side twice, the second time under another plan."""
    small, large = panel.lines
    return replace(panel, lines=(small, Line(name, label, plan, lab.warm(1)), large))


def sampling_panels(k: Knobs) -> list[Panel]:
    """Fig. 2 (a) and (c) without replacement, and (d) with independent subsets."""
    without = Fixed(k.sgd_parity_samples, replacement=False)
    return [
        _varied(sgd_parity(k), "without", "without replacement", without),
        _varied(sgd_index(k), "without", "without replacement", replace(two_phases(None, None), replacement=False)),
        _varied(
            gd_index(k), "independent", "independent subsets", replace(two_phases(*k.gd_index_samples), nested=False)
        ),
    ]


def population_arms(k: Knobs) -> list[lab.Arm]:
    """The exact population of Fig. 2 (b) at every rate of the grid."""
    panel = gd_parity(k)
    _, large = panel.lines
    return [
        lab.Arm(
            name=panel.arm(f"large_{rate:g}"),
            label=f"{large.label}, rate {rate:g}",
            run=replace(panel.run, plan=large.plan, optimizer=SGD(rate)),
            sweep=None,
            colour=lab.cold(shade, max(7, len(k.population_rates))),
            seeds_factor=panel.seeds_factor,
        )
        for shade, rate in enumerate(k.population_rates)
    ]


def swept_panels(k: Knobs) -> list[Panel]:
    """The panels whose arms are at their best rates; of the last one only the small side."""
    parity = gd_parity(k)
    return [*network_panels(k), *sampling_panels(k), replace(parity, lines=parity.lines[:1])]


@dataclass(frozen=True)
class OverTheFastest:
    """The restricted mean time of a line over that of the fastest of some arms, chosen on the same seeds."""

    panel: Panel
    line: str
    others: tuple[str, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms it compares."""
        return (self.panel.arm(self.line), *self.others)

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        lab.check_paired(results, self.arms)
        ratios = [lab.TimeRatio(self.arms[0], other, self.panel.target) for other in self.others]
        horizon = min(ratio.common_horizon(results) for ratio in ratios)
        ratios = [replace(ratio, horizon=horizon) for ratio in ratios]
        small = ratios[0].times(results, self.arms[0])
        others = np.array([ratio.times(results, other) for ratio, other in zip(ratios, self.others, strict=True)])

        def statistic(rows: NDArray[np.int64]) -> float:
            return float(small[rows].mean() / others[:, rows].mean(axis=1).min())

        arrivals = min(float((small < horizon).mean()), float((others < horizon).mean(axis=1).max()))
        return replace(lab.bootstrap(statistic, len(small)), arrivals=arrivals, horizon=horizon)


def claims(k: Knobs) -> list[lab.Claim]:
    """The direction under every change; where two ways of sampling are compared, that they make no difference."""
    primary, secondary = lab.Kind.PRIMARY, lab.Kind.SECONDARY
    said = (
        ("Gaussian initialization: we get the same conclusions (Appendix B.1)", primary),
        ("sigmoid for parity has similar results (Appendix B.1)", primary),
        ("Gaussian initialization: we get the same conclusions (Appendix B.1)", secondary),
        ("GELU for SIM has similar results (Appendix B.1)", primary),
    )
    out = [
        panel.faster("small", "large", paper, "there is a gap", kind=kind)
        for panel, (paper, kind) in zip(network_panels(k), said, strict=True)
    ]
    no_difference = "no empirical difference between the two (Appendix B.1)"
    similar = "the results were similar (Section 2)"
    for panel, line, paper, kind in zip(
        sampling_panels(k),
        ("without", "without", "independent"),
        (no_difference, no_difference, similar),
        (primary, secondary, primary),
        strict=True,
    ):
        how = panel.label(line)
        out += [
            panel.level(line, "small", paper, f"{how}: no difference", kind=kind),
            panel.faster(line, "large", paper, f"{how}: there is a gap"),
        ]
    panel = gd_parity(k)
    out.append(
        lab.Claim(
            id="no_rate_makes_the_population_as_fast",
            statement=f"{panel.title}: steps to {panel.goal} of the small set over those of the population at its "
            "fastest rate are below 1",
            paper="no strict speed-up from increasing the learning rate (Remark 7)",
            rule=lab.below(1.0),
            estimate=OverTheFastest(panel, "small", tuple(arm.name for arm in population_arms(k))),
            kind=primary,
            smallest=NO_EFFECT,
        )
    )
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """A panel for each change; in the last one the population at every rate."""
    k = results.knobs
    picture.set_size_inches(14, 6.6)
    grid = picture.subplots(2, 4).ravel()
    for arm in population_arms(k):
        draw_curve(grid[-1], results, arm.name)
    for ax, panel in zip(grid, swept_panels(k), strict=True):
        draw_lines(ax, results, panel)


STUDY = lab.Study(
    name="less_data/robustness",
    title="The small-vs-large gap under other networks, samplings and rates",
    paper=PAPER_TITLE,
    figures="Fig. 2 (a-d), varied",
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 8.0, "paper": 300.0},
    arms=lambda knobs: [*arms_of(swept_panels(knobs)), *population_arms(knobs)],
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp",),
)
