"""Limits of the overlap process for large d: which terms stay, the differential equation, and the escape from m = 0.

With g = g0 d^-delta and n_b = n0 d^mu the drift (psi, gf) is of order g a step and the noise (hd) of order
g^2 d / n_b; the larger of the two sets the clock, and both must be small for a differential equation.

Reference: Online Learning and Information Exponents, which prints the conditions on delta + mu and 2 delta + mu
exchanged; on the line delta = 1 - mu both terms stay (Saad and Solla, 1995).
"""

from dataclasses import dataclass
from math import factorial, isfinite

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.theory.hermite import Floats, Function, hermite_coefficients
from headstart.theory.information_exponent import information_exponent
from headstart.theory.one_neuron import one_neuron
from headstart.theory.overlap_setting import Activation
from headstart.theory.overlaps import Objective, Process


@dataclass(frozen=True)
class Kept:
    """Which terms a limit keeps: the drift psi and gf, the noise hd."""

    drift: bool = True
    noise: bool = True


def kept_terms(delta: float, mu: float) -> Kept:
    """The terms of the limit d -> infinity with g = g0 d^-delta, n_b = n0 d^mu.

    The drift stays where delta >= 0 and delta + mu >= 1, the noise where 2 delta + mu >= 1 and delta + mu <= 1. Where
    neither does, steps do not become small and there is no differential equation. At delta = 0, and where
    2 delta + mu = 1, steps stay of order 1 and the equation is only what small g0 tends to.
    """
    for name, value in (("delta", delta), ("mu", mu)):
        if not isfinite(value):
            raise HeadstartError(f"kept_terms({name}={value!r}): {name} is a finite number")
    together = delta + mu
    edge = 1e-12
    kept = Kept(delta >= 0 and together >= 1 - edge, 2 * delta + mu >= 1 - edge and together <= 1 + edge)
    if not (kept.drift or kept.noise):
        raise HeadstartError(
            f"kept_terms(delta={delta:g}, mu={mu:g}): steps do not become small, there is no differential equation; "
            "run the Process itself"
        )
    return kept


def ode_path(
    process: Process,
    m: Floats,
    q: Floats,
    steps: Floats,
    p: Floats | None = None,
    kept: Kept | None = None,
) -> tuple[Floats, Floats]:
    """M [t, p, k] and Q [t, p, p] of the differential equation at the times `steps`, in steps of SGD, rising.

    With G = (g/p) a psi and R = (g/p)(a gf + transposed) + (g/p)^2 a a^T (d/n_b) hd, of which `kept` keeps some,
    dM/dt = G - (M/2) diag R and dQ_jl/dt = R_jl - (Q_jl/2)(R_jj + R_ll): rows stay on the sphere.
    """
    from scipy.integrate import solve_ivp

    kept = kept or Kept()
    times = np.asarray(steps, dtype=np.float64)
    if times.ndim != 1 or not len(times) or times[0] < 0 or (np.diff(times) <= 0).any():
        raise HeadstartError("ode_path(steps=...): give rising times from 0 on")
    m, q = np.asarray(m, dtype=np.float64), np.asarray(q, dtype=np.float64)
    speed = process.rate * np.array(process.setting.readout)

    def flow(_: float, state: Floats) -> Floats:
        now_m, now_q = state[: m.size].reshape(m.shape), state[m.size :].reshape(q.shape)
        # The solver may step a hair outside of the covariances.
        seen = process.expectations(*_inside(now_m, (now_q + now_q.T) / 2, p), p)
        across = speed[:, None] * seen.gf * kept.drift
        growth = across + across.T + np.outer(speed, speed) * process.dim / process.batch * seen.hd * kept.noise
        own = np.diag(growth)
        dm = speed[:, None] * seen.psi * kept.drift - now_m / 2 * own[:, None]
        dq = growth - now_q / 2 * (own[:, None] + own)
        return np.concatenate((dm.ravel(), dq.ravel()))

    start = np.concatenate((m.ravel(), q.ravel()))
    found = solve_ivp(flow, (0.0, float(times[-1])), start, t_eval=times, rtol=1e-8, atol=1e-10)
    if not found.success:
        raise HeadstartError(f"ode_path: {found.message} Use fewer steps or a smaller rate")
    return found.y[: m.size].T.reshape(-1, *m.shape), found.y[m.size :].T.reshape(-1, *q.shape)


def _inside(m: Floats, q: Floats, p: Floats | None) -> tuple[Floats, Floats]:
    """M and Q with diag Q = 1, where Q - M P^-1 M^T, of what rows have outside of the directions, is a covariance."""
    inside = m @ m.T if p is None else m @ np.linalg.solve(p, m.T)
    sizes, basis = np.linalg.eigh(q - inside)
    if sizes[0] < 0:
        q = inside + (basis * np.maximum(sizes, 0)) @ basis.T
    norms = np.sqrt(np.diag(q))
    return m / norms[:, None], q / np.outer(norms, norms)


def escape_threshold(link: Function, student: Activation, loss: Objective = Objective.MSE, noise: float = 0.0) -> float:
    """The largest g d^(l/2) / n_b with which a cold start m0 = d^(-1/2) grows, p = k = 1, l the information exponent.

    Near m = 0 a step adds g l l! c_l c*_l m^(l-1) and takes away (m/2) g^2 (d/n_b) phiHD(0), so the threshold is
    2 l l! c_l c*_l / phiHD(0), for rates that are small themselves. At or below 0 nothing grows on its own: a wrong
    sign for even l, starts with m0 < 0 for odd l; `learnability` says which.
    """
    exponent = information_exponent(link)
    target, own = (hermite_coefficients(part, exponent)[exponent] for part in (link, student))
    setting = Process(link, student, loss=loss, noise=noise).setting
    return float(2 * exponent * factorial(exponent) * target * own / one_neuron(setting).hd(0.0))
