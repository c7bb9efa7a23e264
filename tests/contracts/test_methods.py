"""Every method in every engine: the same samples, the same numbers, and a neutral element that changes nothing."""

from dataclasses import replace

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines import loop, lower
from headstart.engines.engine import Interrupted, Job
from headstart.engines.ensemble import Ensemble
from headstart.engines.fused import Fused
from headstart.losses import MSE
from headstart.methods import (
    GradientFilter,
    InBall,
    LayerScale,
    MuP,
    PhaseLoss,
    RandomLabels,
    SampledBias,
    Whiten,
    ZeroMean,
)
from headstart.models import MLP
from headstart.optimizers import SGD, AdamW
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Run, Step
from headstart.tasks import Hermite, Parity, SingleIndex

FAST = [pytest.param(Ensemble(), id="ensemble"), pytest.param(Fused(), id="fused")]
ENGINES = [pytest.param(loop.Loop(), id="loop"), *FAST]
every_engine = pytest.mark.parametrize("engine", ENGINES)

TWO_PHASES = Phases((Phase(size=16, steps=15), Phase()))
PARITY = Run(
    Parity(8, 2), MLP(16), TWO_PHASES, MSE(), SGD(0.1), batch=Batch(8), budget=Budget(40, record_every=10), seed=3
)
INDEX = replace(PARITY, task=SingleIndex(6, Hermite(3)), optimizer=SGD(0.01), seed=5)
GD = replace(PARITY, batch=FullBatch(), plan=Phases((Phase(size=64, steps=20), Phase())))
INDEX_GD = replace(INDEX, batch=FullBatch(), plan=Phases((Phase(size=64, steps=20), Phase(size=96))))
DEEP = replace(PARITY, model=MLP(16, depth=3))
RUNS = {
    "random labels, then fresh": replace(PARITY, methods=(RandomLabels(),)),
    "random labels of fresh samples": replace(PARITY, plan=Online(), methods=(RandomLabels(),)),
    "random labels in a deep network": replace(DEEP, methods=(RandomLabels(),)),
    "random labels, then the population": replace(GD, methods=(RandomLabels(),)),
    "another direction": replace(INDEX, methods=(RandomLabels(),)),
    "another direction, full batches": replace(INDEX_GD, methods=(RandomLabels(),)),
    "permuted labels": replace(INDEX, methods=(RandomLabels(permuted=True),)),
    "zero mean": replace(PARITY, plan=Fixed(32), methods=(ZeroMean(),)),
    "zero mean by class, full batches": replace(GD, plan=Fixed(64), methods=(ZeroMean(by_class=True),)),
    "whitened": replace(INDEX, plan=Fixed(48), methods=(Whiten(),)),
    "whitened, without replacement": replace(INDEX, plan=Fixed(48, replacement=False), methods=(Whiten(),)),
    "biased online": replace(PARITY, plan=Online(), methods=(SampledBias(16),)),
    "biased online, deep": replace(DEEP, plan=Online(), methods=(SampledBias(16),)),
    "random labels in 63 dimensions with biases": replace(PARITY, task=Parity(63, 2), methods=(RandomLabels(),)),
    "random labels in 63 dimensions": replace(
        PARITY, task=Parity(63, 2), model=MLP(16, bias=False), methods=(RandomLabels(),)
    ),
    "muP": replace(DEEP, methods=(MuP(base_width=8),)),
    "muP under AdamW": replace(DEEP, optimizer=AdamW(0.01), methods=(MuP(base_width=8),)),
    "two methods": replace(PARITY, plan=Fixed(32), methods=(ZeroMean(), RandomLabels())),
}
every_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def train(engine, *runs, **options):
    return list(engine.train([run if isinstance(run, Job) else Job(run) for run in runs], **options))


def end_weights(engine, run):
    end = Step(run.budget.steps)
    (outcome,) = train(engine, Job(run, keep=(end,)))
    return outcome.states[end].weights


@pytest.mark.parametrize("engine", FAST)
@every_run
def test_an_engine_agrees_with_the_loop_on_every_record(engine, run):
    assert engine.supports(run) is None
    (one,), (two,) = train(loop.Loop(), run), train(engine, run)
    assert one.trace.values.keys() == two.trace.values.keys()
    for name, curve in one.trace.values.items():
        slack = 2 / 4096 if name == "test_accuracy" else 1e-5
        assert np.allclose(curve, two.trace[name], rtol=2e-4, atol=slack), name


@every_engine
@every_run
def test_a_method_changes_the_run_and_leaves_the_test_set(engine, run):
    (touched,), (untouched,) = train(engine, run), train(engine, replace(run, methods=()))
    assert not np.array_equal(touched.trace["train_loss"], untouched.trace["train_loss"])
    if all(method.init_scale(p) == 1 for method in run.methods for p in run.parameters):
        assert touched.trace["test_loss"][0] == untouched.trace["test_loss"][0]


@every_engine
@pytest.mark.parametrize(
    "method",
    [
        RandomLabels(phases=()),
        MuP(base_width=16),
        LayerScale(),
        LayerScale.alpha(1),
        LayerScale.query_key(),
        GradientFilter(strength=0),
        GradientFilter("window", window=3, strength=0),
        PhaseLoss(()),
        PhaseLoss((None, None)),
        InBall(tuple(Role), radius=1e30),
    ],
)
def test_the_neutral_element_of_a_method_is_the_untouched_run(engine, method):
    if lacking := engine.supports(replace(DEEP, methods=(method,))):
        assert isinstance(method, InBall)
        pytest.skip(lacking)
    one, two = (end_weights(engine, replace(DEEP, methods=methods)) for methods in ((method,), ()))
    assert all(np.array_equal(one[name], two[name]) for name in one)


@every_run
def test_members_of_the_fused_engine_do_not_depend_on_who_they_share_a_call_with(run):
    many = train(Fused(), *(run.at(seed) for seed in (1, 2, 9)), replace(run, methods=()).at(2))
    for outcome in many:
        (alone,) = train(Fused(), outcome.run)
        for name, curve in alone.trace.values.items():
            assert np.array_equal(curve, outcome.trace[name])


@every_engine
@every_run
def test_an_interrupted_run_goes_on_exactly(engine, run, tmp_path):
    (whole,) = train(engine, run)
    job = Job(run, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(Interrupted):
        train(engine, job, watch=lambda index, step: step >= 20)
    (resumed,) = train(engine, job)
    for name, curve in whole.trace.values.items():
        assert np.array_equal(curve, resumed.trace[name]), name


@every_engine
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_alpha_scaling_equals_rates_times_alpha_squared_and_over_it(engine, alpha, bias):
    """For ReLU (W / alpha, b / alpha, alpha a) at rate eta walks with (W, b, a) at eta alpha^2 and eta / alpha^2."""
    run = replace(PARITY, plan=Fixed(64), batch=FullBatch(), model=MLP(16, bias=bias))
    scaled = end_weights(engine, replace(run, methods=(LayerScale.alpha(alpha),)))
    rates = LayerScale(rate={0: alpha**2, Role.READOUT: 1 / alpha**2})
    rated = end_weights(engine, replace(run, methods=(rates,)))
    factors = {"layers.0.weight": alpha, "layers.0.bias": alpha, "layers.1.weight": 1 / alpha, "layers.1.bias": 1.0}
    for name, value in rated.items():
        np.testing.assert_allclose(scaled[name] * factors[name], value, rtol=2e-4, atol=1e-6, err_msg=name)


def test_methods_compose_in_the_order_written():
    run = replace(PARITY, plan=Fixed(32))
    first = lower(replace(run, methods=(ZeroMean(), RandomLabels()))).pool(0)
    second = lower(replace(run, methods=(RandomLabels(), ZeroMean()))).pool(0)
    assert np.array_equal(first.x, second.x)
    assert np.array_equal(second.y, run.task.label(run.seed, second.x))
    assert not np.array_equal(first.y, second.y)


def test_the_exact_population_cannot_be_changed():
    with pytest.raises(HeadstartError, match="exact population"):
        lower(replace(GD, plan=Online(), methods=(SampledBias(4),)))
