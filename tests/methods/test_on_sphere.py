"""Rows of weights on a sphere, or in a ball."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.signature import Signature
from headstart.core.units import Batch, Budget
from headstart.engines import choose, lower
from headstart.engines.engine import Job
from headstart.losses import MSE
from headstart.methods import Hook, InBall, LayerScale, OnSphere
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Online
from headstart.run import Run, Step
from headstart.tasks import Parity

PARAMETERS = {p.name: p for p in MLP(4, depth=3).parameters(Signature((5,)))}
FIRST, HIDDEN = "layers.0.weight", "layers.1.weight"
RUN = Run(Parity(5, 2), MLP(4, depth=3), Online(), MSE(), SGD(0.3), Batch(8), budget=Budget(6, record_every=2))


def weights(members=()):
    """Rows of many lengths, one of them 0."""
    generator = torch.Generator().manual_seed(0)
    drawn = {n: 2 * torch.randn(*members, *p.shape, generator=generator) for n, p in PARAMETERS.items()}
    drawn[FIRST][..., 0, :] *= 0.01
    return drawn


def norms(rows):
    return np.linalg.norm(np.asarray(rows), axis=-1)


def at_steps(run, *steps):
    moments = [Step(step) for step in steps]
    (outcome,) = choose(run).engine.train([Job(run, keep=tuple(moments))])
    return [outcome.states[moment].weights for moment in moments]


@pytest.mark.parametrize("members", [(), (3,)])
def test_rows_of_the_named_roles_get_the_radius_and_keep_their_direction(members):
    before = weights(members)
    after = OnSphere(radius=2.5).project(before, PARAMETERS)
    assert list(after) == [FIRST]
    np.testing.assert_allclose(norms(after[FIRST]), 2.5, rtol=1e-6)
    cosine = (after[FIRST] * before[FIRST]).sum(-1).numpy() / (norms(after[FIRST]) * norms(before[FIRST]))
    np.testing.assert_allclose(cosine, 1, rtol=1e-5)


def test_biases_are_left_alone_and_several_roles_may_be_named():
    after = OnSphere((Role.HIDDEN, Role.INPUT, Role.BIAS)).project(weights(), PARAMETERS)
    assert set(after) == {FIRST, HIDDEN}
    assert OnSphere("hidden") == OnSphere((Role.HIDDEN, "hidden"))


def test_a_row_of_zeros_stays_finite():
    zeros = {name: torch.zeros_like(w) for name, w in weights().items()}
    for method in (OnSphere(), InBall()):
        assert torch.isfinite(method.project(zeros, PARAMETERS)[FIRST]).all()


@pytest.mark.parametrize("members", [(), (3,)])
def test_a_ball_shortens_long_rows_and_leaves_short_ones_bit_for_bit(members):
    before = weights(members)
    after = InBall(radius=1.0).project(before, PARAMETERS)[FIRST]
    short = norms(before[FIRST]) <= 1
    assert short.any()
    assert not short.all()
    assert torch.equal(after[short], before[FIRST][short])
    np.testing.assert_allclose(norms(after)[~short], 1, rtol=1e-6)


@pytest.mark.parametrize("members", [(), (3,)])
def test_a_tangent_gradient_has_no_part_along_the_weights_and_others_keep_theirs(members):
    w, g = weights(members), {name: value.flip(-1) + 1 for name, value in weights(members).items()}
    along, memory = OnSphere(tangent=True).transform(g, {}, w, PARAMETERS, step=0)
    assert memory == {}
    np.testing.assert_allclose((along[FIRST] * w[FIRST]).sum(-1), 0, atol=1e-4)
    # What is taken away is along the weights.
    away = g[FIRST] - along[FIRST]
    parallel = (away * w[FIRST]).sum(-1, keepdim=True) / w[FIRST].square().sum(-1, keepdim=True) * w[FIRST]
    torch.testing.assert_close(away, parallel, rtol=1e-4, atol=1e-5)
    assert all(along[name] is g[name] for name in g if name != FIRST)


def test_only_a_tangent_asks_for_gradients():
    assert OnSphere().hooks == InBall().hooks == {Hook.PROJECTION}
    assert OnSphere(tangent=True).hooks == {Hook.PROJECTION, Hook.GRADIENTS}


@pytest.mark.parametrize("tangent", [False, True])
def test_a_run_is_on_its_sphere_at_the_start_and_after_every_step(tangent):
    run = replace(RUN, methods=(LayerScale(init={Role.INPUT: 7}), OnSphere((Role.INPUT, Role.HIDDEN), 2.0, tangent)))
    for state in at_steps(run, 0, 1, 6):
        np.testing.assert_allclose(norms(state[FIRST]), 2, rtol=1e-5)
        np.testing.assert_allclose(norms(state[HIDDEN]), 2, rtol=1e-5)


def test_a_run_takes_a_step_and_is_then_projected():
    run = replace(RUN, methods=(OnSphere(),))
    start, end = at_steps(run, 0, 1)
    # The same step of the untouched run, from the start that was projected.
    (plain,) = choose(RUN).engine.train([Job(RUN, lower(run).begin(None), keep=(Step(1),))])
    stepped = plain.states[Step(1)].weights
    assert not np.allclose(start[FIRST], stepped[FIRST])
    np.testing.assert_allclose(end[FIRST], stepped[FIRST] / norms(stepped[FIRST])[:, None], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(end[HIDDEN], stepped[HIDDEN], rtol=1e-4, atol=1e-6)


def test_a_ball_that_is_never_left_is_the_untouched_run():
    run = replace(RUN, precision="float64")
    (one,), (two,) = at_steps(run, 6), at_steps(replace(run, methods=(InBall(radius=1e6),)), 6)
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("method", [OnSphere, InBall])
def test_what_makes_no_sense_is_refused(method):
    with pytest.raises(HeadstartError, match=rf"{method.__name__}\(radius=0"):
        method(radius=0)
    with pytest.raises(HeadstartError, match=rf"{method.__name__}\(roles=\('outptu',\)\): roles are .*readout"):
        method(roles=("outptu",))
