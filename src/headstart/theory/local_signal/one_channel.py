"""One random channel, exactly: its best error over all weights and thresholds, and how many draws are good enough."""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import check_fraction
from headstart.tasks import LocalSignal
from headstart.theory.local_signal.gaussian import tail
from headstart.theory.local_signal.threshold import _beyond, _unit_grid

_NODES, _END, _WIDTHS, _MANY = 2000, 60.0, 40.0, 50.0


def rule_error(task: LocalSignal, overlap: float, tau: float, angle: float) -> float:
    """P(f <= 0) of the rule W = cos(angle) u + sin(angle) e on one channel u, |<u, w*>| = sigma overlap.

    e is the unit vector across u in the plane of w*. A patch of noise adds sigma (cos xi + sin eta) where |xi| >= tau:
    Gil-Pelaez' integral of its characteristic function. Where the signal does not pass, tau > overlap, it is 1/2.
    """
    along = task.sigma * overlap
    level = np.cos(angle) * along + np.sin(angle) * sqrt(max(0.0, 1 - along**2))
    if tau > overlap:
        return 0.5
    p, s, passing = np.cos(angle), np.sin(angle), 2 * float(tail(tau))
    many = task.patches * passing
    root, weights = _unit_grid(_NODES)
    t = min(_END, _WIDTHS / sqrt(many)) * root**2 if many > _MANY else _END * root**2
    each = 1 - passing + np.exp(-0.5 * (s * t) ** 2) * 2 * (np.exp(1j * p * t * tau) * _beyond(p * t, tau)).real
    none = (1 - passing) ** task.patches
    integral = float((2 * weights / root) @ (np.sin(t * level / task.sigma) * (each**task.patches - none))) / np.pi
    return float(np.clip(0.5 - np.sign(level) * none / 2 - integral, 0.0, 1.0))


def best_error(task: LocalSignal, overlap: float) -> float:
    """The least of these over tau and angle: a grid of thresholds up to the overlap, and Brent's search of angles."""
    from scipy.optimize import minimize_scalar

    found = []
    for share in (1.0, 0.8, 0.5, 0.0):
        tau = share * overlap
        middle = minimize_scalar(lambda angle, tau=tau: rule_error(task, overlap, tau, angle), (0.2, 1.2), tol=1e-4)
        found.append(float(middle.fun))
    return min(found)


def share_below(task: LocalSignal, error: float = 0.1) -> tuple[float, float]:
    """The share of random channels whose best error is below this, exactly, and the overlap from which on it is.

    The best error falls with the overlap, and sigma^2 overlap^2 of a uniform direction is Beta(1/2, (d - 1) / 2).
    """
    from scipy.optimize import brentq
    from scipy.stats import beta

    most = min(0.999 / task.sigma, 8.0)
    if best_error(task, most) > error:
        return 0.0, float("inf")
    crossing = brentq(lambda z: best_error(task, z) - error, 0.1, most, xtol=1e-3)
    return float(beta.sf((task.sigma * crossing) ** 2, 0.5, (task.dim - 1) / 2)), float(crossing)


@dataclass(frozen=True)
class OneChannel:
    """`share_below` as a computed part of a study: share of draws and the overlap from which on they are good."""

    task: LocalSignal
    error: float = 0.1

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_fraction("OneChannel", "error", self.error)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        return 4.0

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """share and overlap."""
        share, overlap = share_below(self.task, self.error)
        return {"share": np.array(share), "overlap": np.array(overlap)}
