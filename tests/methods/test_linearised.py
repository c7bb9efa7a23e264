"""The network replaced by its first-order expansion at the start."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call, jacrev

from headstart.core.units import Budget, FullBatch
from headstart.engines import choose, lower
from headstart.engines.engine import Interrupted, Job
from headstart.losses import MSE
from headstart.methods import Hook, LayerScale, Linearised
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Fixed
from headstart.run import Run, Step
from headstart.tasks import Parity

# torch's own, on the first forward derivative.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")

RUN = Run(
    Parity(5, 2),
    MLP(8),
    Fixed(12),
    MSE(),
    SGD(0.05),
    FullBatch(),
    budget=Budget(10, record_every=5),
    precision="float64",
)
LAZY = replace(RUN, methods=(Linearised(),))
MODULE = RUN.model.module(RUN.task.signature).double()


def forward(weights, x):
    return functional_call(MODULE, weights, (x,))


def origin(run):
    return {name: torch.from_numpy(w) for name, w in lower(run).begin(None).weights.items()}


def data():
    samples = RUN.task.sample(RUN.seed, np.arange(12))
    return torch.from_numpy(samples.x).double(), torch.from_numpy(samples.y).double()


def kernel_regression(start, steps):
    """Gradient descent on the mean squared error of the linear model, on predictions: f <- f - (2 lr / n) K (f - y)."""
    x, y = data()
    jacobian = torch.cat([j.flatten(1) for j in jacrev(lambda w: forward(w, x))(start).values()], dim=1)
    kernel, f = jacobian @ jacobian.T, forward(start, x)
    for _ in range(steps):
        f = f - RUN.optimizer.lr * 2 / len(y) * kernel @ (f - y)
    return ((f - y) ** 2).mean().item()


def test_at_the_start_it_is_the_network():
    start, (x, _) = origin(RUN), data()
    torch.testing.assert_close(Linearised().predict(forward, start, start, x), forward(start, x))


def test_it_is_linear_in_the_weights_with_the_slope_of_the_network():
    start, (x, _) = origin(RUN), data()
    step = {name: torch.full_like(w, 0.1) for name, w in start.items()}

    def at(t):
        return Linearised().predict(forward, {name: w + t * step[name] for name, w in start.items()}, start, x)

    torch.testing.assert_close(at(2.0) - at(1.0), at(1.0) - at(0.0))
    tiny = {name: w + 1e-6 * step[name] for name, w in start.items()}
    torch.testing.assert_close(at(1e-6), forward(tiny, x), rtol=0, atol=1e-9)
    assert not torch.allclose(at(1.0), forward({name: w + step[name] for name, w in start.items()}, x))


@pytest.mark.parametrize("methods", [(Linearised(),), (LayerScale.alpha(2), Linearised())], ids=["plain", "scaled"])
def test_gradient_descent_on_it_is_kernel_regression(methods):
    run = replace(RUN, methods=methods)
    (outcome,) = choose(run).engine.train([Job(run)])
    losses = [kernel_regression(origin(run), steps) for steps in (0, 5, 10)]
    np.testing.assert_allclose(outcome.trace["train_loss"], losses, rtol=1e-9)
    (network,) = choose(RUN).engine.train([Job(replace(run, methods=methods[:-1]))])
    assert network.trace["train_loss"][0] == pytest.approx(losses[0])
    assert abs(network.trace["train_loss"][-1] - losses[-1]) > 1e-6


def test_a_step_counts_twice():
    assert LAZY.methods[0].hooks == {Hook.REWRITE}
    assert lower(LAZY).flops == 2 * lower(RUN).flops


def test_it_goes_on_from_its_own_start_and_not_from_where_it_was_stopped(tmp_path):
    engine = choose(LAZY).engine
    (whole,) = engine.train([Job(LAZY, keep=(Step(10),))])
    job = Job(LAZY, keep=(Step(10),), checkpoint=tmp_path / "c.safetensors")
    with pytest.raises(Interrupted):
        list(engine.train([job], watch=lambda index, step: step >= 5))
    (resumed,) = engine.train([job])
    for name, weight in whole.states[Step(10)].weights.items():
        assert np.array_equal(weight, resumed.states[Step(10)].weights[name])
