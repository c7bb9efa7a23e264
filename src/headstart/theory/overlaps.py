"""The overlap process of one-pass SGD: the deterministic path of M = W W*^T and Q = W W^T.

A student f(z) = (1/p) sum_j a_j s(<w_j, z>) with rows of W on the unit sphere learns y = h*(W* z) + sqrt(D) xi,
z ~ N(0, I_d), from fresh batches of n_b samples. With g the rate and the expectations of `Expectations`, a step is

    dM_jr = (g/p) a_j psi_jr
    dQ_jl = (g/p) (a_j gf_jl + a_l gf_lj) + (g/p)^2 a_j a_l V_jl
    V_jl  = (1/n_b) E[s'_j s'_l (E^2 + D) |z|^2] + (1 - 1/n_b) b_j^T O^-1 b_l,   b_j = (gf_j., psi_j.)

which are the exact means of W W*^T and W W^T after a step from given overlaps, at any d and n_b. Rows are then put back
on the sphere: M <- (M + dM) / sqrt(Q_jj + dQ_jj), and Q likewise: the ratio of means for the mean of the ratio, whose
error vanishes for large d. It holds for rates of order 1, unlike the first-order form dM - (M/2) dQ.

Reference: Online Learning and Information Exponents; the exact V is ours, the paper's is (d/n_b) phiHD + phiBC.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from headstart.core.errors import HeadstartError, check_count, check_flag, check_nonnegative, check_positive
from headstart.tasks import Hermite
from headstart.theory.hermite import Floats
from headstart.theory.one_neuron import one_neuron
from headstart.theory.overlap_closed_forms import closed_expectations, has_closed_form
from headstart.theory.overlap_quadrature import point_expectations
from headstart.theory.overlap_setting import Activation, Expectations, Setting, Wanted, joint_covariance


class Objective(StrEnum):
    """What a step descends on: the squared error, or the correlation of label and output.

    MSE is (1 / 2 n_b) sum (y - f)^2, with the residual y - f. CORRELATION is (1 / n_b) sum (1 - y f): the residual
    becomes y, so neurons do not feel each other.
    """

    MSE = "mse"
    CORRELATION = "correlation"


class Form(StrEnum):
    """Which second-order term dQ has: exact at any d and n_b, or the paper's for large d, with or without phiBC."""

    EXACT = "exact"
    PAPER = "paper"
    PAPER_WITHOUT_BATCH = "paper_without_batch"


@dataclass(frozen=True)
class Process:
    """The process of one student, teacher, dimension, batch and rate; `readout` has the p numbers a_j, else all are 1.

    `link` is h*: a link of one number; one of several, which says its `directions`; or a plain function of [n, k] with
    `directions` = k. `noise` is D, the variance of label noise. `spherical` takes each row's own part out of its
    gradient before the step.
    """

    link: Any = Hermite(3)
    student: Activation = Hermite(3)
    dim: int = 1000
    batch: int = 1000
    rate: float = 0.01
    loss: Objective = Objective.MSE
    num_neurons: int = 1
    directions: int | None = None
    readout: tuple[float, ...] | None = None
    noise: float = 0.0
    spherical: bool = False
    form: Form = Form.EXACT

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("Process", "num_neurons", self.num_neurons)
        check_count("Process", "batch", self.batch)
        check_count("Process", "dim", self.dim, minimum=2)
        check_positive("Process", "rate", self.rate)
        check_nonnegative("Process", "noise", self.noise)
        check_flag("Process", "spherical", self.spherical)
        object.__setattr__(self, "loss", Objective(self.loss))
        object.__setattr__(self, "form", Form(self.form))
        if not callable(self.link):
            raise HeadstartError(f"Process(link={self.link!r}): give a link such as Hermite(3) or Committee(Erf(), 2)")
        if self.directions is not None:
            check_count("Process", "directions", self.directions)
            if self.directions != self.num_directions:
                raise HeadstartError(f"Process(directions={self.directions}): {self.link} takes {self.num_directions}")
        if self.num_directions > self.dim:
            raise HeadstartError(f"Process(dim={self.dim}): {self.num_directions} directions need at least as many")
        if not isinstance(self.student, Activation) or isinstance(self.student, type):
            raise HeadstartError(
                f"Process(student={self.student!r}): a neuron needs a slope; give an activation such as Erf() or Relu()"
            )
        if self.readout is not None:
            readout = tuple(float(a) for a in self.readout)
            if len(readout) != self.num_neurons or not np.isfinite(readout).all():
                raise HeadstartError(f"Process(readout={self.readout!r}): give {self.num_neurons} finite numbers")
            object.__setattr__(self, "readout", readout)

    @property
    def num_directions(self) -> int:
        """k: what the link says, else what was given, else 1."""
        return int(getattr(self.link, "directions", self.directions or 1))

    @property
    def setting(self) -> Setting:
        """What the expectations depend on."""
        scaled = tuple(a / self.num_neurons for a in self.readout or (1.0,) * self.num_neurons)
        return Setting(self.link, self.student, scaled, self.num_directions, self.noise, self.loss is Objective.MSE)

    def expectations(self, m: Floats, q: Floats, p: Floats | None = None) -> Expectations:
        """psi, gf, hd, ... at overlaps M [p, k], Q [p, p] and P [k, k], the identity unless given.

        One neuron and one direction on the sphere: power series. erf with erf, Hermite series with Hermite series:
        closed forms. Everything else: Gauss-Hermite points up to three fields, Sobol points above.
        """
        covariance = self._covariance(m, q, p)
        wanted = Wanted(self.form is Form.EXACT, self.spherical)
        if covariance.shape == (2, 2) and np.allclose(np.diag(covariance), 1, rtol=0, atol=1e-12):
            return one_neuron(self.setting).at(float(covariance[0, 1]))
        if has_closed_form(self.setting):
            return closed_expectations(self.setting, covariance, wanted)
        return point_expectations(self.setting, covariance, wanted)

    def change(self, m: Floats, q: Floats, p: Floats | None = None) -> tuple[Floats, Floats]:
        """dM [p, k] and dQ [p, p], before rows are put back on the sphere."""
        seen, covariance = self.expectations(m, q, p), self._covariance(m, q, p)
        speed = self.rate * np.array(self.setting.readout)
        num = self.num_neurons
        m, q = covariance[:num, num:], covariance[:num, :num]
        psi, gf = seen.psi, seen.gf
        if self.spherical:
            own = np.diag(gf)[:, None]
            psi, gf = psi - own * m, gf - own * q
        across = speed[:, None] * gf
        return speed[:, None] * psi, across + across.T + np.outer(speed, speed) * self._second(seen, covariance)

    def _covariance(self, m: Floats, q: Floats, p: Floats | None) -> Floats:
        covariance = joint_covariance(m, q, np.eye(self.num_directions) if p is None else p)
        if np.shape(m) != (self.num_neurons, self.num_directions):
            raise HeadstartError(
                f"Process: M of shape {list(np.shape(m))}; {self.num_neurons} neurons and {self.num_directions} "
                f"directions have [{self.num_neurons}, {self.num_directions}]"
            )
        return covariance

    def _second(self, seen: Expectations, covariance: Floats) -> Floats:
        """V [p, p]: the mean product of two rows' gradients, over the prefactors."""
        num = self.num_neurons
        gf, q = seen.gf, covariance[:num, :num]
        samples, pairs = self.dim * seen.hd, _between(seen, covariance)
        if self.form is Form.EXACT:
            assert seen.radial is not None
            samples = samples + seen.radial
        if self.spherical:
            own = np.diag(gf)
            pairs = pairs - own[:, None] * gf.T - own * gf + np.outer(own, own) * q
            if self.form is Form.EXACT:
                assert seen.own is not None
                assert seen.cross is not None
                samples = samples - seen.own - seen.own.T + seen.cross * q
        return self._weighed(samples, pairs)

    def _weighed(self, samples: Floats, pairs: Floats) -> Floats:
        """Of the n_b^2 pairs of samples in a batch n_b are of a sample with itself."""
        if self.form is Form.EXACT:
            return samples / self.batch + (1 - 1 / self.batch) * pairs
        return samples / self.batch + (pairs if self.form is Form.PAPER and self.batch > 1 else 0.0)

    def step(self, m: Floats, q: Floats, p: Floats | None = None) -> tuple[Floats, Floats]:
        """M and Q after one step, by the ratio map."""
        dm, dq = self.change(m, q, p)
        moved, grown = np.asarray(m) + dm, np.asarray(q) + dq
        grown = (grown + grown.T) / 2  # rounding grows where neurons become one and O singular
        norms = self._norms(np.diag(grown))
        return moved / norms[:, None], grown / np.outer(norms, norms)

    def _norms(self, squares: Floats) -> Floats:
        if not (squares > 0).all():
            raise HeadstartError(
                f"Process(form={self.form.value!r}): a row has the squared norm {squares.min():.3g} after a step; the "
                "form does not hold at this rate, use Form.EXACT or a smaller rate"
            )
        return np.asarray(np.sqrt(squares))

    def next_overlap(self, m: Floats | float) -> Floats:
        """m after one step for p = k = 1 on the sphere, elementwise on an array: `step` for many overlaps at once."""
        if self.num_neurons != 1 or self.num_directions != 1:
            raise HeadstartError(
                f"Process.next_overlap: {self.num_neurons} neurons, {self.num_directions} directions; it takes one of "
                "each, use step"
            )
        seen, speed = one_neuron(self.setting), self.rate * self.setting.readout[0]
        m = np.asarray(m, dtype=np.float64)
        toward, along = seen.toward(m), seen.along(m)
        psi, gf = toward + m * along, m * toward + along
        samples, pairs = self.dim * seen.hd(m), toward * psi + along * gf
        if self.form is Form.EXACT:
            samples = samples + seen.radial(m) - self.spherical * seen.own(m)
        if self.spherical:
            psi, gf, pairs = psi - gf * m, 0.0 * gf, pairs - gf**2
        squares = 1 + 2 * speed * gf + speed**2 * self._weighed(samples, pairs)
        return np.asarray((m + speed * psi) / self._norms(squares))

    def run(
        self, m: Floats, q: Floats, steps: int, p: Floats | None = None, until: float | None = None
    ) -> tuple[Floats, Floats]:
        """M [t + 1, p, k] and Q [t + 1, p, p] from the start on, for `steps` steps or until |M|_F reaches `until`."""
        check_count("Process.run", "steps", steps, minimum=0)
        self._covariance(m, q, p)
        path = [(np.asarray(m, dtype=np.float64), np.asarray(q, dtype=np.float64))]
        alone = self.num_neurons == self.num_directions == 1 and p is None and path[0][1] == 1
        while len(path) <= steps and (until is None or np.linalg.norm(path[-1][0]) < until):
            now, own = path[-1]
            path.append((self.next_overlap(now), own) if alone else self.step(now, own, p))
        return np.array([m for m, _ in path]), np.array([q for _, q in path])


def _between(seen: Expectations, covariance: Floats) -> Floats:
    """phiBC_jl = b_j^T O^-1 b_l: the product of mean gradients, which two different samples of a batch have."""
    rows = np.concatenate((seen.gf, seen.psi), axis=1)
    return np.asarray(rows @ np.linalg.pinv(covariance, rcond=1e-12, hermitian=True) @ rows.T)
