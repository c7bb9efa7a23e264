"""SGD in d dimensions by the fused engine, and the chain on its overlaps that theory draws: one law.

Kolmogorov and Smirnov's test of two samples with fixed seeds, at the level 0.001 for each number that is compared.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import ks_2samp

import headstart as hs
from headstart.engines import Job
from headstart.engines.fused import Fused
from headstart.theory import Objective, ReducedSGD, simulate

LEVEL = 1e-3
NUM_RUNS, STEPS = 300, 8


@dataclass(frozen=True)
class Setting:
    """A process, and the name of its student's activation."""

    process: ReducedSGD
    activation: str

    @property
    def run(self):
        """The same as a Run: the squared error of a run has no factor of 1/2, so its rate is half."""
        process, mse = self.process, self.process.loss is Objective.MSE
        return hs.Run(
            hs.MultiIndex(process.dim, process.link, noise=process.noise, num_test=1),
            hs.MLP(process.num_neurons, activation=self.activation, bias=False, init="committee"),
            hs.Online(),
            hs.MSE() if mse else hs.Correlation(),
            hs.SGD(process.rate / 2 if mse else process.rate),
            batch=hs.Batch(process.batch),
            budget=hs.Budget(STEPS, record_every=STEPS),
            methods=(hs.OnSphere(tangent=process.spherical), hs.LayerScale(rate={"readout": 0})),
        )


SETTINGS = {
    "one neuron, one direction": Setting(ReducedSGD(hs.Hermite(3), hs.Hermite(3), 9, 40, 0.05, noise=0.3), "he3"),
    "spherical, by correlation": Setting(
        ReducedSGD(hs.Hermite(2), hs.Hermite(2), 12, 5, 0.2, Objective.CORRELATION, spherical=True), "he2"
    ),
    "three neurons, two directions": Setting(
        ReducedSGD(hs.Committee(hs.Erf(), 2), hs.Erf(), 7, 6, 4.0, num_neurons=3), "erf"
    ),
    "a product of three": Setting(
        ReducedSGD(hs.ProductOf(hs.Tanh(), 3), hs.Tanh(), 6, 4, 3.0, Objective.CORRELATION, num_neurons=2), "tanh"
    ),
}


def numbers_of(overlaps, gram):
    """Some numbers of M [n, p, k] and Q [n, p, p], and how they go together."""
    rows = {"an overlap": overlaps[:, 0, 0], "|M|": np.linalg.norm(overlaps, axis=(1, 2))}
    if gram.shape[1] > 1:
        rows |= {"two neurons": gram[:, 0, 1], "both": gram[:, 0, 1] + overlaps[:, 0, 0] * overlaps[:, 1, 0]}
    return rows


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_direct_and_reduced_sgd_have_one_law(setting):
    run, measure = setting.run, hs.Overlaps()
    assert Fused().supports(run) is None
    outcomes = Fused().train([Job(run.at(seed), measures=(measure,)) for seed in range(NUM_RUNS)])
    seen = [outcome.measured[measure] for outcome in outcomes]
    direct = numbers_of(*(np.array([arrays[name][-1] for arrays in seen]) for name in ("M", "Q")))
    chain = simulate(setting.process, 4000, STEPS, seed=1, compiled=False)
    reduced = numbers_of(chain.overlaps[:, -1], chain.gram[:, -1])
    for name, values in direct.items():
        assert ks_2samp(values, reduced[name]).pvalue > LEVEL, name
    # A fifth of the rate is another law: the test can fail.
    slower = simulate(replace(setting.process, rate=setting.process.rate / 5), 4000, STEPS, seed=1, compiled=False)
    other = numbers_of(slower.overlaps[:, -1], slower.gram[:, -1])
    assert min(ks_2samp(values, other[name]).pvalue for name, values in direct.items()) < LEVEL
