"""The constants and bounds of Theorem 1 and Corollary 2 of "Less Data, Faster Training", and what they predict.

The theorems say "for a universal constant"; here every constant is the one that its proof gives.
"""

from dataclasses import dataclass
from math import acos, ceil, exp, log, pi, sqrt

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.theory.quadratic_neuron import Labels

# Lemma 1's own example, and what the proof of Corollary 5 gives for random labels.
C_TRUE, C_RANDOM = sqrt(3 / 8), sqrt(1 / 2)
# Matrix Bernstein gives sqrt(2 d L / N) + (2 / 3)(d + 1) L / N, so C = sqrt 2 suffices in Lemma 5 and Corollary 6.
C_BERNSTEIN = sqrt(2)
HYPERCONTRACTIVITY = 3.0**8  # E q^4 <= 3^8 (E q^2)^2, (A.7)


def drive_constant(labels: Labels) -> float:
    """c_0 (Lemma 1) or c_r (Corollary 5): |q(0)| >= c / sqrt N has constant probability."""
    return C_TRUE if labels is Labels.TRUE else C_RANDOM


def check_delta(delta: float) -> None:
    """Raise unless delta is a probability strictly between 0 and 1."""
    if not 0 < delta < 1:
        raise HeadstartError(f"delta={delta!r}: a probability strictly between 0 and 1, such as 0.1")


def check_epsilon(epsilon: float) -> None:
    """Raise unless epsilon is in (0, 1/2), as Lemma 6 asks."""
    if not 0 < epsilon < 0.5:
        raise HeadstartError(f"epsilon={epsilon!r}: Lemma 6 takes a number in (0, 1/2), such as 0.1")


def norm_bound(dim: int, samples: int, delta: float, labels: Labels = Labels.TRUE) -> float:
    """B: |M| <= B with probability at least 1 - delta (Lemma 5; without its 1 for random labels, Corollary 6).

    B = 1 + C (sqrt(d L / N) + d L / N),  L = log(2 d / delta)
    """
    check_count("norm_bound", "dim", dim)
    check_count("norm_bound", "samples", samples)
    check_delta(delta)
    ratio = dim * log(2 * dim / delta) / samples
    return (labels is Labels.TRUE) + C_BERNSTEIN * (sqrt(ratio) + ratio)


def switch_terms(dim: int, samples: int, eta: float, delta: float, labels: Labels = Labels.TRUE) -> dict[str, float]:
    """The four caps on a_* of Section A.4.3: "one", "stability", "last step" and "drift"."""
    check_positive("switch_terms", "eta", eta)
    bound = norm_bound(dim, samples, delta, labels)
    return {
        "one": 1.0,
        "stability": 1 / (2 * eta * bound),
        "last step": 1 / (32 * eta * bound * sqrt(dim)),
        "drift": sqrt(drive_constant(labels) / (64 * bound * sqrt(samples * dim))),
    }


def switch_point(dim: int, samples: int, eta: float, delta: float, labels: Labels = Labels.TRUE) -> float:
    """a_*, the readout at which phase 1 ends: the least of the four caps.

    The paper calls it optimal. It is the largest at which the proof controls the drift of w, not the minimiser of
    T_1 + T_2.
    """
    return min(switch_terms(dim, samples, eta, delta, labels).values())


def phase1_bound(switch: float, drive: float, eta: float, readout: float = 0.0) -> int:
    """ceil(2 (a_* - |a(0)|)_+ / (eta q_*)) steps, (A.10)."""
    return ceil(2 * max(switch - abs(readout), 0.0) / (eta * drive))


def phase2_bound(switch: float, alignment_squared: float, eta: float, epsilon: float) -> int:
    """ceil((2 / (eta |a|)) log(1 / (alpha_0^2 epsilon))) steps, Lemma 6."""
    return ceil(2 / (eta * switch) * log(1 / (alignment_squared * epsilon)))


@dataclass(frozen=True)
class Prediction:
    """What the theory says before anything is simulated. Steps are upper bounds on the event of Theorem 1.

    `population_only` is Lemma 6 from the typical readout 1 / sqrt m and alignment 1 / (4 d): O(sqrt m log(d / eps)).
    """

    switch: float
    binding_cap: str
    norm_bound: float
    phase1_steps: int
    phase2_steps: int
    population_only: int

    @property
    def total_steps(self) -> int:
        """T_1 + T_2."""
        return self.phase1_steps + self.phase2_steps


def predict(
    dim: int,
    samples: int,
    width: int,
    eta: float = 0.5,
    epsilon: float = 0.1,
    delta: float = 0.1,
    labels: Labels = Labels.TRUE,
) -> Prediction:
    """a_*, T_1 and T_2 of Theorem 1 (or of Corollary 2) for d, N, m and eta, with the constants of its proof.

    T_1 <= ceil((2 a_* / (eta c_0)) sqrt N),  T_2 <= ceil((2 / (eta a_*)) log(16 d / epsilon)).
    """
    check_count("predict", "dim", dim, minimum=3)
    check_count("predict", "samples", samples)
    check_count("predict", "width", width)
    check_epsilon(epsilon)
    if not 0 < eta <= 0.5:
        raise HeadstartError(f"predict(eta={eta!r}): Theorem 1 takes learning rates in (0, 1/2]")
    terms = switch_terms(dim, samples, eta, delta, labels)
    switch = min(terms.values())
    return Prediction(
        switch=switch,
        binding_cap=min(terms, key=lambda name: terms[name]),
        norm_bound=norm_bound(dim, samples, delta, labels),
        phase1_steps=phase1_bound(switch, drive_constant(labels) / sqrt(samples), eta),
        phase2_steps=phase2_bound(switch, 1 / (16 * dim), eta, epsilon),
        population_only=phase2_bound(1 / sqrt(width), 1 / (4 * dim), eta, epsilon),
    )


def drift_bound(norm: float, switch: float, readout: float, drive: float, eta: float) -> float:
    """|w(T) - w(0)| <= (8 |M| / q_*) a_* (a_* - |a(0)|)_+ + 4 eta |M| a_*, (A.12)."""
    return 8 * norm / drive * switch * max(switch - abs(readout), 0.0) + 4 * eta * norm * switch


def paley_zygmund(constant: float) -> float:
    """p_PZ(c) = (1 - 1 / sqrt 2) (1 - (4 / 3) c^2)^2 / 3^8 of Lemma 1 and Corollary 5, for c in (0, sqrt 3 / 2)."""
    if not 0 < constant < sqrt(3) / 2:
        raise HeadstartError(f"paley_zygmund(constant={constant!r}): Lemma 1 takes constants in (0, sqrt(3) / 2)")
    return (1 - 1 / sqrt(2)) * (1 - 4 / 3 * constant**2) ** 2 / HYPERCONTRACTIVITY


def align_probability() -> float:
    """p_align of Lemma 9: P[|g| >= 1] - P[chi^2_d > 4 d], least at d = 2, where the latter is e^-4."""
    return 0.31731050786291415 - exp(-4.0)


def population_probability(dim: int) -> float:
    """P[R] <= P[P_0] of Lemma 10: 9 / (10 d) <= r^2 <= 1 / d with r^2 ~ Beta(1, (d-2)/2), and |cos 2 theta| >= 5/6."""
    check_count("population_probability", "dim", dim, minimum=3)
    power = (dim - 2) / 2
    return ((1 - 0.9 / dim) ** power - (1 - 1 / dim) ** power) * 2 / pi * acos(5 / 6)


def all_probability(labels: Labels = Labels.TRUE) -> float:
    """p_all of Lemma 10, (1/2) p_pop p_one, or of Lemma 12, p_pop p_r / 4; p_pop is least at d = 3.

    p_one = theta^2, theta = 1 / (2^(5/2) 3^4); p_r = 1 / (4 3^8).
    """
    p_pop = population_probability(3)
    if labels is Labels.RANDOM:
        return p_pop / (4 * HYPERCONTRACTIVITY) / 4
    theta = 1 / (2**2.5 * sqrt(HYPERCONTRACTIVITY))
    return p_pop * theta**2 / 2
