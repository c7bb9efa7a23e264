"""Every theorem, corollary and lemma of Appendix A of "Less Data, Faster Training" as a check on simulated neurons.

An `Inequality` is said of every neuron on an event: one neuron that violates it refutes it. A `Chance` is said of the
probability of an event: its share among neurons stands beside the bound. Both are computed from a `TwoPhase` and the
arrays of its `compute`, and from nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.theory.quadratic_neuron import Labels
from headstart.theory.two_phase import TwoPhase
from headstart.theory.two_phase_bounds import (
    C_RANDOM,
    C_TRUE,
    align_probability,
    all_probability,
    drive_constant,
    norm_bound,
    paley_zygmund,
    predict,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Inequality:
    """measured <= bound for every neuron on the event, [n] each; float64 rounding is forgiven."""

    event: Bools
    measured: Floats
    bound: Floats

    @property
    def num_on_event(self) -> int:
        """How many neurons it speaks of."""
        return int(self.event.sum())

    @property
    def num_violations(self) -> int:
        """How many of them violate it; what is not a number does."""
        size = np.where(np.isfinite(self.bound), np.abs(self.bound), 0.0)
        allowed = self.bound + _ROUNDING * (1.0 + size)
        return int((self.event & ~(self.measured <= allowed)).sum())

    @property
    def tightness(self) -> float:
        """The largest measured / bound on the event; 1 is tight. Not a number where the bound is 0."""
        rows = self.event & (self.bound != 0)
        return float(np.max(self.measured[rows] / self.bound[rows])) if rows.any() else float("nan")


@dataclass(frozen=True)
class Chance:
    """An event that happened to `happened` of `trials` neurons, and what the statement says of its probability."""

    happened: int
    trials: int
    bound: float

    @property
    def share(self) -> float:
        """How often it happened."""
        return self.happened / self.trials if self.trials else float("nan")


class Events:
    """The events of Appendix A, named as there, for one simulation."""

    def __init__(self, part: TwoPhase, arrays: Mapping[str, NDArray[Any]], labels: Labels) -> None:
        if part.samples is None or part.labels is not labels:
            raise HeadstartError(f"{part}: this statement is about a phase 1 with {labels} labels")
        self.part, self.arrays, self.samples = part, arrays, part.samples
        self.least_drive = drive_constant(labels) / sqrt(part.samples)  # q_* = c / sqrt N
        self.norm_bound = norm_bound(part.dim, part.samples, part.delta, labels)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.arrays:
            raise HeadstartError(f"{self.part}: its simulation has no {name!r}; it has {', '.join(self.arrays)}")
        return self.arrays[name]

    @property
    def sign(self) -> Floats:
        """sign a(0)."""
        return np.sign(self["readout"])

    @property
    def population_drive(self) -> Floats:
        """q_pop(w(0)) = z_+^2 - z_-^2."""
        return self["plus"] ** 2 - self["minus"] ** 2

    @property
    def large(self) -> Bools:
        """|q(0)| >= q_*."""
        return np.abs(self["drive"]) >= self.least_drive

    @property
    def good(self) -> Bools:
        """G_0 of Theorem 3: q(0) is large and has the sign of a(0)."""
        return self.large & (self.sign == np.sign(self["drive"]))

    @property
    def stable(self) -> Bools:
        """eta a_* |M| <= 1/2."""
        return self.part.eta * self.part.switch_point * self["norm"] <= 0.5

    @property
    def central(self) -> Bools:
        """P_0 of Lemma 10."""
        dim = self.part.dim
        radius = self["plus"] ** 2 + self["minus"] ** 2
        return (np.abs(self.population_drive) >= 0.75 / dim) & (radius <= 1 / dim)

    @property
    def all(self) -> Bools:
        """G_sign and P_0 of Lemma 10; for random labels those of Lemma 12, which are the same in these words."""
        return self.good & self.central & (self.sign == np.sign(self.population_drive))

    @property
    def theorem(self) -> Bools:
        """The event of Theorem 1, or of Corollary 2: `all`, and |M| <= B."""
        return self.all & (self["norm"] <= self.norm_bound)

    @property
    def phase1_bound(self) -> Floats:
        """ceil(2 (a_* - |a(0)|)_+ / (eta q_*)), (A.10)."""
        left = np.maximum(self.part.switch_point - np.abs(self["readout"]), 0.0)
        return np.ceil(2 * left / (self.part.eta * self.least_drive))

    @property
    def drift_bound(self) -> Floats:
        """epsilon_drift of (A.12)."""
        switch, norm = self.part.switch_point, self["norm"]
        left = np.maximum(switch - np.abs(self["readout"]), 0.0)
        return 8 * norm / self.least_drive * switch * left + 4 * self.part.eta * norm * switch

    def steps(self, phase: int) -> Floats:
        """T_1 or T_2; infinite where the neuron did not arrive."""
        steps = self[f"phase{phase}_steps"].astype(np.float64)
        return np.where(steps < 0, np.inf, steps)

    def decided(self, phase: int, bound: Floats | float) -> Bools:
        """Whether T is known to be within the bound or above it: one that stopped early below its bound is not."""
        return (self[f"phase{phase}_steps"] >= 0) | (bound <= self.part.max_steps)

    def alignment(self, where: str, sign: Floats) -> Floats:
        """|<w, u_sign>| at the start ("") or at the end of phase 1 ("phase1_")."""
        return np.abs(np.where(sign > 0, self[f"{where}plus"], self[f"{where}minus"]))


def _both_phases(on: Events) -> Inequality:
    """T_1 and T_2 over their bounds, the larger of the two, on the theorem's event."""
    part = on.part
    assert part.epsilon is not None
    said = predict(part.dim, on.samples, part.width, part.eta, part.epsilon, part.delta, part.labels)
    ratio = np.maximum(on.steps(1) / said.phase1_steps, on.steps(2) / said.phase2_steps)
    event = on.theorem & on.decided(1, said.phase1_steps) & on.decided(2, said.phase2_steps)
    return Inequality(event, ratio, np.ones(len(ratio)))


def _lemma_3(on: Events) -> Inequality:
    fall = on["phase1_worst_fall"]
    return Inequality(np.isfinite(fall), fall, np.zeros(len(fall)))


def _lemma_4(on: Events) -> Inequality:
    return Inequality(on.good & on.stable, np.abs(on["drive"]), on["phase1_least_drive"])


def _theorem_3(on: Events) -> Inequality:
    event = on.good & on.stable & on.decided(1, on.phase1_bound)
    return Inequality(event, on.steps(1), on.phase1_bound)


def _phase2_event(on: Events) -> Bools:
    drive = on["phase1_plus"] ** 2 - on["phase1_minus"] ** 2
    return (np.sign(on["phase1_readout"]) == np.sign(drive)) & (on.part.eta <= 0.5)


def _lemma_6_signs(on: Events) -> Inequality:
    worst = np.maximum(on["phase2_readout_fall"], -np.minimum(on["phase2_least_drive"], on["phase2_least_readout"]))
    return Inequality(_phase2_event(on), worst, np.zeros(len(worst)))


def _lemma_6_contraction(on: Events) -> Inequality:
    ratio = on["phase2_contraction"]
    return Inequality(_phase2_event(on), ratio, np.ones(len(ratio)))


def _lemma_6_steps(on: Events) -> Inequality:
    assert on.part.epsilon is not None
    alpha = on.alignment("phase1_", np.sign(on["phase1_readout"]))
    bound = np.ceil(2 / (on.part.eta * np.abs(on["phase1_readout"])) * np.log(1 / (alpha**2 * on.part.epsilon)))
    return Inequality(_phase2_event(on) & on.decided(2, bound), on.steps(2), bound)


def _lemma_7(on: Events) -> Inequality:
    return Inequality(on.good & on.stable, on["phase1_moved"], on.drift_bound)


def _lemma_8(on: Events) -> Inequality:
    sign = np.sign(on["phase1_readout"])
    least = np.maximum(on.alignment("", sign) - on["phase1_moved"], 0.0)
    return Inequality(on["phase1_steps"] >= 0, least**2, on.alignment("phase1_", sign) ** 2)


def _lemma_11(on: Events) -> Inequality:
    root = sqrt(on.part.dim)
    sign, after = np.sign(on.population_drive), np.sign(on["phase1_plus"] ** 2 - on["phase1_minus"] ** 2)
    event = on.central & (on["phase1_moved"] <= 1 / (4 * root))
    bound = np.where(sign == after, on.alignment("phase1_", sign), -np.inf)
    return Inequality(event, np.full(len(sign), (sqrt(3) / 2 - 1 / 4) / root), bound)


@dataclass(frozen=True)
class Bounded:
    """An inequality: the paper's words, the labels of phase 1 it is about, and how it is checked."""

    says: str
    check: Callable[[Events], Inequality]
    labels: Labels = Labels.TRUE

    def __call__(self, part: TwoPhase, arrays: Mapping[str, NDArray[Any]]) -> Inequality:
        """The inequality on one simulation."""
        return self.check(Events(part, arrays, self.labels))


@dataclass(frozen=True)
class Probable:
    """A bound on a probability: the paper's words, the event, the least probability for a given delta, the labels.

    `given` conditions on another event. An event `inside_central` implies P_0, so that its share can be counted in a
    simulation that kept the neurons in P_0 alone.
    """

    says: str
    event: Callable[[Events], Bools]
    bound: Callable[[float], float]
    labels: Labels = Labels.TRUE
    given: Callable[[Events], Bools] | None = None
    inside_central: bool = False

    def __call__(self, part: TwoPhase, arrays: Mapping[str, NDArray[Any]]) -> Chance:
        """How often it happened in one simulation."""
        on = Events(part, arrays, self.labels)
        if part.central and not self.inside_central:
            raise HeadstartError(f"{part}: {self.says!r} is over all initial weights; simulate with central=False")
        trials = int(on["num_scanned"][0]) if self.given is None else int(self.given(on).sum())
        return Chance(int(self.event(on).sum()), trials, self.bound(part.delta))


RANDOM = Labels.RANDOM
INEQUALITIES: dict[str, Bounded] = {
    "theorem_1": Bounded("T1 <= 2 a* sqrt(N) / (eta c0) and T2 <= (2 / (eta a*)) log(16 d / eps)", _both_phases),
    "corollary_2": Bounded("random labels: the same with c_r, and B without its 1", _both_phases, RANDOM),
    "theorem_3": Bounded("T1 <= ceil(2 (a* - abs(a0)) sqrt(N) / (eta c0)) on the good event", _theorem_3),
    "lemma_3": Bounded("q+ - q has the sign of a while eta abs(a) norm(M) <= 1/2", _lemma_3),
    "lemma_4": Bounded("q(t) keeps the sign of a(0) and abs(q(t)) >= abs(q(0)) until T1", _lemma_4),
    "lemma_6_signs": Bounded("on the population no sign flips and abs(a) does not fall", _lemma_6_signs),
    "lemma_6_contraction": Bounded("r(t+1) <= r(t) / (1 + eta abs(a(t)))", _lemma_6_contraction),
    "lemma_6_steps": Bounded("T2 <= ceil((2 / (eta abs(a))) log(1 / (alpha0^2 eps)))", _lemma_6_steps),
    "lemma_7": Bounded("drift of w <= (8 norm(M) / q*) a* (a* - abs(a0)) + 4 eta norm(M) a*", _lemma_7),
    "lemma_8": Bounded("alpha0^2 >= (abs(<w(0), u>) - drift)+^2", _lemma_8),
    "lemma_11": Bounded("a drift below 1 / (4 sqrt d) keeps the population's sign and the alignment", _lemma_11),
}
PROBABILITIES: dict[str, Probable] = {
    "theorem_1": Probable(
        "P >= p_all - delta", lambda on: on.theorem, lambda d: all_probability() - d, inside_central=True
    ),
    "corollary_2": Probable(
        "random labels: P >= p_all - delta",
        lambda on: on.theorem,
        lambda d: all_probability(RANDOM) - d,
        RANDOM,
        inside_central=True,
    ),
    "theorem_3": Probable("P(G0) >= p_PZ(c0) / 2", lambda on: on.good, lambda d: paley_zygmund(C_TRUE) / 2),
    "lemma_1": Probable(
        "P(abs(q(0)) >= c0 / sqrt N) >= p_PZ(c0)", lambda on: on.large, lambda d: paley_zygmund(C_TRUE)
    ),
    "lemma_2": Probable(
        "a large q(0) has the sign of a(0) with probability 1/2",
        lambda on: on.good,
        lambda d: 0.5,
        given=lambda on: on.large,
    ),
    "lemma_5": Probable("P(norm(M) <= B) >= 1 - delta", lambda on: on["norm"] <= on.norm_bound, lambda d: 1 - d),
    "corollary_4": Probable(
        "P(eta abs(a(t)) norm(M) <= 1/2 until T1) >= 1 - delta",
        lambda on: on["phase1_largest_pull"] <= 0.5,
        lambda d: 1 - d,
    ),
    "corollary_5": Probable(
        "random labels: P(abs(q(0)) >= c_r / sqrt N) >= p_PZ(c_r)",
        lambda on: on.large,
        lambda d: paley_zygmund(C_RANDOM),
        RANDOM,
    ),
    "corollary_6": Probable(
        "random labels: P(norm(M) <= C (sqrt(dL/N) + dL/N)) >= 1 - delta",
        lambda on: on["norm"] <= on.norm_bound,
        lambda d: 1 - d,
        RANDOM,
    ),
    "lemma_9": Probable(
        "P(abs(<w(0), u>) >= 1 / (2 sqrt d)) >= p_align",
        lambda on: np.abs(on["plus"]) >= 0.5 / sqrt(on.part.dim),
        lambda d: align_probability(),
    ),
    "lemma_10": Probable(
        "P(G_sign and P0) >= p_all", lambda on: on.all, lambda d: all_probability(), inside_central=True
    ),
    "lemma_12": Probable(
        "random labels: P(G_sign and P0) >= p_all",
        lambda on: on.all,
        lambda d: all_probability(RANDOM),
        RANDOM,
        inside_central=True,
    ),
}
