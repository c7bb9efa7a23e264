"""Committee machines on multi-index targets: projected and spherical SGD from its equations, in every engine."""

from dataclasses import replace

import numpy as np
import pytest

from headstart.core.roles import Role
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines import Job
from headstart.engines.ensemble import Ensemble
from headstart.engines.fused import Fused
from headstart.engines.loop import Loop
from headstart.losses import MSE, Correlation
from headstart.methods import GradientFilter, InBall, LayerScale, OnSphere, PhaseLoss, RandomLabels
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Run, Step
from headstart.tasks import (
    Committee,
    Erf,
    Hermite,
    HermiteSum,
    MultiIndex,
    Parity,
    ProductOf,
    Relu,
    Series,
    Sign,
    SingleIndex,
    Tanh,
)

FIXED_READOUT = LayerScale(rate={Role.READOUT: 0})
FIRST, READOUT = "layers.0.weight", "layers.1.weight"


def committee(neurons, activation="he3"):
    return MLP(neurons, activation=activation, bias=False, init="committee")


RUN = Run(
    MultiIndex(11, Hermite(3), noise=0.2, num_test=100),
    committee(3),
    Online(),
    MSE(),
    SGD(0.02),
    batch=Batch(21),
    budget=Budget(6, record_every=2),
    methods=(OnSphere(), FIXED_READOUT),
    seed=4,
)


def weights_at(engine, run, step):
    assert engine.supports(run) is None
    (outcome,) = engine.train([Job(run, keep=(Step(step),))])
    return outcome.states[Step(step)].weights


def naive_sgd(run, link, rate, spherical, trained):
    """R = (1 / 2 n_b) sum (y - f)^2 or (1 / n_b) sum (1 - y f), a_j of rate `trained`, every line as it is defined."""
    w = run.fresh_weights()[FIRST].astype(np.float64)
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    p, n_b = len(w), run.batch.size
    a = np.ones(p)
    for step in range(run.budget.steps):
        data = run.task.sample(run.seed, np.arange(step * n_b, (step + 1) * n_b))
        x, y = data.x.astype(np.float64), data.y.astype(np.float64)
        lam = x @ w.T
        residual = y - link(lam) @ a / p if isinstance(run.loss, MSE) else y
        minus_gradient = (residual[:, None] * a / p * link.slope(lam)).T @ x / n_b
        if spherical:
            minus_gradient -= (minus_gradient * w).sum(1, keepdims=True) * w
        a = a + trained * (residual @ link(lam)) / p / n_b
        w = w + rate * minus_gradient
        w /= np.linalg.norm(w, axis=1, keepdims=True)
    return w, a / p


@pytest.mark.parametrize("engine", [Loop(), Ensemble(), Fused()], ids=lambda engine: engine.name)
@pytest.mark.parametrize("loss", [MSE(), Correlation()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("spherical", [False, True], ids=["projected", "spherical"])
@pytest.mark.parametrize("link", [Hermite(2), Hermite(3), Hermite(4), Erf(), Tanh(), Relu()], ids=str)
def test_an_engine_takes_the_steps_of_the_equations(engine, loss, spherical, link):
    name = f"he{link.degree}" if isinstance(link, Hermite) else type(link).__name__.lower()
    # The squared error of a run has no factor of 1/2, so its gradient is twice the reference's.
    g = 0.02 if name == "he4" else 0.3
    lr = g / 2 if isinstance(loss, MSE) else g
    methods = (OnSphere(tangent=spherical), FIXED_READOUT)
    run = replace(RUN, model=committee(3, name), loss=loss, optimizer=SGD(lr), methods=methods)
    found = weights_at(engine, run, 6)
    w, readout = naive_sgd(run, link, g, spherical, trained=0.0)
    np.testing.assert_allclose(found[FIRST], w, atol=2e-5)
    np.testing.assert_allclose(found[READOUT][0], readout, rtol=1e-6)


@pytest.mark.parametrize("engine", [Loop(), Ensemble(), Fused()], ids=lambda engine: engine.name)
def test_a_trained_readout_has_the_rate_of_its_a_j_over_p_squared(engine):
    g, p = 0.3, 3
    methods = (OnSphere(), LayerScale(rate={Role.READOUT: p**-2}))
    run = replace(RUN, model=committee(p, "erf"), optimizer=SGD(g / 2), methods=methods)
    found = weights_at(engine, run, 6)
    w, readout = naive_sgd(run, Erf(), g, spherical=False, trained=g)
    np.testing.assert_allclose(found[FIRST], w, atol=2e-5)
    np.testing.assert_allclose(found[READOUT][0], readout, rtol=1e-5)
    assert np.abs(found[READOUT] - 1 / p).min() > 1e-4


def test_a_committee_begins_as_the_mean_of_uniform_neurons_times_what_its_readout_is_scaled_by():
    run = replace(RUN, model=committee(5), methods=(OnSphere(), LayerScale(init={Role.READOUT: 0.25})))
    start = weights_at(Fused(), run, 0)
    np.testing.assert_allclose(start[READOUT], 0.25 / 5)
    np.testing.assert_allclose(np.linalg.norm(start[FIRST], axis=1), 1, rtol=1e-6)


# --- fused beside the loop ----------------------------------------------------------------------------------------


def assert_agree(run, tolerance=3e-5):
    job = Job(run, keep=tuple(Step(step) for step in range(run.budget.steps + 1)))
    assert Fused().supports(run) is None
    (fused,), (loop,) = Fused().train([job]), Loop().train([job])
    for name, curve in loop.trace.values.items():
        scale = max(1e-2, np.abs(curve).max())
        np.testing.assert_allclose(fused.trace[name], curve, rtol=0, atol=tolerance * scale, err_msg=name)
    for at, state in loop.states.items():
        for name, value in state.weights.items():
            np.testing.assert_allclose(fused.states[at].weights[name], value, rtol=0, atol=tolerance, err_msg=name)


TARGETS = [
    Hermite(1),
    Series((0, 1, 0, 0.5)),
    Relu(),
    Sign(),
    Committee(Tanh(), 3),
    Committee(Hermite(2), 2),
    Committee(Series((1, 0, 0.5)), 2),
    ProductOf(Tanh(), 3),
    ProductOf(Hermite(2), 2),
    ProductOf(Erf(), 1),
    HermiteSum.staircase(3),
    HermiteSum(((3, (0,)), (0.5, (2, 1)))),
]


@pytest.mark.parametrize("link", TARGETS, ids=str)
def test_every_target_agrees_with_the_loop(link):
    assert_agree(replace(RUN, task=MultiIndex(9, link, noise=0.3, num_test=100), model=committee(4, "tanh")))


def test_any_link_of_a_single_index_agrees_with_the_loop():
    run = replace(RUN, model=committee(4, "erf"))
    assert_agree(replace(run, task=SingleIndex(9, Relu(), norm=2.0)))
    assert_agree(replace(run, task=SingleIndex(9, Hermite(2))))


PLANS = {
    "above a block": (Online(), Batch(200)),
    "a whole number of blocks": (Online(), Batch(128)),
    "fixed": (Fixed(50), Batch(70)),
    "full": (Fixed(150), FullBatch()),
    "phases": (Phases((Phase(size=30, steps=3), Phase())), Batch(9)),
}


@pytest.mark.parametrize(("plan", "batch"), PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("random", [False, True], ids=["own labels", "random labels"])
def test_every_plan_agrees_with_the_loop(plan, batch, random):
    methods = (*RUN.methods, RandomLabels()) if random else RUN.methods
    assert_agree(replace(RUN, plan=plan, batch=batch, methods=methods))


@pytest.mark.parametrize("tangent", [False, True], ids=["projected", "spherical"])
def test_spheres_agree_with_the_loop_for_parity_depth_and_biases(tangent):
    deep = replace(RUN, methods=(OnSphere(radius=1.5, tangent=tangent),), model=MLP(18, depth=3), optimizer=SGD(0.05))
    assert_agree(deep)
    # On a sphere a parity goes to the kernels for dense inputs, whether it would have tables or not.
    assert_agree(replace(deep, task=Parity(8, 2), model=MLP(5)))


def test_what_its_kernels_cannot_project_is_refused():
    engine = Fused()
    for method in (OnSphere((Role.HIDDEN, Role.INPUT)), InBall()):
        run = replace(RUN, model=MLP(4, depth=3), methods=(method,))
        assert engine.supports(run) == "it lacks projected weights"
    two = replace(RUN, methods=(OnSphere(), OnSphere(radius=2.0)))
    assert engine.supports(two) == "it lacks projected weights"
    assert "transformed gradients" in engine.supports(replace(RUN, methods=(OnSphere(), GradientFilter())))
    population = replace(RUN, task=Parity(8, 2), batch=FullBatch(), methods=(OnSphere(),))
    assert "exact population" in engine.supports(population)
    unknown = replace(RUN, task=MultiIndex(9, ProductOf(Series((0, 1, 1)), 2)))
    assert "do not know the link ProductOf(outer=Series" in engine.supports(unknown)


def test_members_on_a_sphere_do_not_depend_on_who_they_share_a_call_with():
    runs = [replace(RUN, optimizer=SGD(lr)).at(seed) for lr in (0.01, 0.05) for seed in (1, 2)]
    for outcome in Fused().train([Job(run) for run in runs]):
        (alone,) = Fused().train([Job(outcome.run)])
        for name, curve in alone.trace.values.items():
            assert np.array_equal(curve, outcome.trace[name])


# --- correlation first, then the squared error --------------------------------------------------------------------


@pytest.mark.parametrize("engine", [Loop(), Ensemble()], ids=lambda engine: engine.name)
def test_a_run_may_take_correlation_steps_first_and_go_on_with_the_squared_error(engine):
    plan = Phases((Phase(steps=3), Phase()))
    both = replace(RUN, plan=plan, methods=(*RUN.methods, PhaseLoss((Correlation(),))))
    first = weights_at(engine, replace(RUN, loss=Correlation()), 3)
    np.testing.assert_allclose(weights_at(engine, both, 3)[FIRST], first[FIRST], atol=1e-6)
    assert not np.allclose(weights_at(engine, both, 6)[FIRST], weights_at(engine, RUN, 6)[FIRST], atol=1e-4)


def test_a_large_batch_is_drawn_a_few_steps_at_a_time(monkeypatch):
    run = replace(RUN, batch=Batch(32))
    whole = weights_at(Loop(), run, 6)
    monkeypatch.setattr("headstart.engines.loop._BLOCK_BYTES", 4 * 32 * 11 * 2)
    assert np.array_equal(weights_at(Loop(), run, 6)[FIRST], whole[FIRST])
