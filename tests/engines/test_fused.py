"""The fused engine beside the loop: step by step, gradient by gradient, and its promises about grouping."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.trace import Status
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines import Interrupted, Job
from headstart.engines.fused import Fused, group_key
from headstart.engines.loop import Loop
from headstart.losses import MSE, Correlation, Hinge, Logistic
from headstart.methods import LayerScale
from headstart.models import MLP
from headstart.models.mlp import Activation, Init
from headstart.optimizers import SGD, AdamW, Cosine, StepDecay, WarmUp, WarmUpStableDecay
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Run, Step
from headstart.tasks import Hermite, Parity, SingleIndex

LOSSES = [MSE(), Hinge(), Logistic(), Correlation()]
# A neuron whose pre-activation rounds to the other side of zero moves a weight by more than rounding does.
TOLERANCE = 1e-4

TABLES = Run(
    Parity(9, 3), MLP(13), Online(), MSE(), SGD(0.05), batch=Batch(37), budget=Budget(20, record_every=1), seed=3
)
DEEP = replace(TABLES, model=MLP(13, depth=3))
INDEX = replace(TABLES, task=SingleIndex(7, Hermite(2)), optimizer=SGD(0.01))
POPULATION = replace(TABLES, batch=FullBatch())


def both(run):
    """The outcomes of the two engines, with the weights of every step."""
    job = Job(run, keep=tuple(Step(i) for i in range(run.budget.steps + 1)))
    (fused,), (loop,) = Fused().train([job]), Loop().train([job])
    return fused, loop


def assert_agree(run):
    """Records and weights agree at every step, relative to the largest entry of each curve and parameter."""
    fused, loop = both(run)
    assert fused.trace.status is loop.trace.status is Status.FINISHED
    assert fused.trace.values.keys() == loop.trace.values.keys()
    for name in ("steps", "samples", "flops"):
        assert np.array_equal(getattr(fused.trace, name), getattr(loop.trace, name))
    for name, curve in loop.trace.values.items():
        # One test sample whose output is close to zero may count on either side.
        slack = 1.01 / run.task.num_test if name == "test_accuracy" else TOLERANCE * max(1e-2, np.abs(curve).max())
        np.testing.assert_allclose(fused.trace[name], curve, rtol=0, atol=slack, err_msg=name)
    for at, state in loop.states.items():
        for name, value in state.weights.items():
            mine, slack = fused.states[at].weights[name], TOLERANCE * np.abs(value).max()
            np.testing.assert_allclose(mine, value, rtol=0, atol=slack, err_msg=f"{at} {name}")


# --- agreement with the loop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("activation", list(Activation))
@pytest.mark.parametrize("run", [TABLES, DEEP, POPULATION], ids=["tables", "deep", "population"])
def test_every_activation_and_loss_agrees_with_the_loop(run, activation, loss):
    # A polynomial network of three layers on an unbounded loss grows without bounds within twenty steps.
    unbounded = loss.name == "correlation" and activation in ("quadratic", "he2", "he3")
    lr = 0.0002 if activation == "he4" else 0.005 if unbounded else 0.05
    run = replace(run, model=replace(run.model, activation=activation), loss=loss, optimizer=SGD(lr))
    assert_agree(run)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("run", [TABLES, INDEX], ids=["parity", "index"])
def test_every_depth_agrees_with_the_loop(run, depth, bias):
    assert_agree(replace(run, model=MLP(11, depth, bias=bias)))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("run", [TABLES, DEEP, INDEX, POPULATION], ids=["tables", "deep", "index", "population"])
def test_adamw_agrees_with_the_loop(run, bias):
    optimizer, slow = AdamW(0.01, 0.8, 0.95, 1e-6, 0.1), LayerScale(rate={Role.READOUT: 0.3})
    assert_agree(replace(run, model=replace(run.model, bias=bias), optimizer=optimizer, methods=(slow,)))


SCHEDULES = [Cosine(0.1), WarmUp(5, Cosine()), StepDecay((0.3, 0.6)), WarmUpStableDecay(0.2, 0.3)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
@pytest.mark.parametrize("kind", [SGD, AdamW])
@pytest.mark.parametrize("run", [TABLES, DEEP, INDEX, POPULATION], ids=["tables", "deep", "index", "population"])
def test_every_schedule_agrees_with_the_loop(run, kind, schedule):
    assert_agree(replace(run, optimizer=kind(0.02, schedule=schedule)))


def test_optimizers_that_its_kernels_do_not_know_are_refused_by_name():
    for optimizer in (SGD(0.1, momentum=0.9), SGD(0.1, weight_decay=0.1), AdamW(0.1, decay="coupled")):
        assert "SGD and AdamW" in Fused().supports(replace(TABLES, optimizer=optimizer))
    assert "float64" in Fused().supports(replace(TABLES, precision="float64"))


PLANS = {
    "with replacement": (Fixed(50), Batch(37)),
    "without replacement": (Fixed(50, replacement=False), Batch(37)),
    "phases": (Phases((Phase(size=16, steps=5), Phase(size=40, epochs=4), Phase())), Batch(13)),
    "phases without replacement": (Phases((Phase(size=20, steps=5), Phase(size=45)), replacement=False), Batch(13)),
    "full batch": (Fixed(301), FullBatch()),
    "phases of full batches": (Phases((Phase(size=20, steps=5), Phase(size=150))), FullBatch()),
    "a batch above a block": (Online(), Batch(300)),
}


@pytest.mark.parametrize(("plan", "batch"), PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("run", [TABLES, DEEP, INDEX], ids=["tables", "deep", "index"])
def test_every_plan_agrees_with_the_loop(run, plan, batch):
    assert_agree(replace(run, plan=plan, batch=batch))


def test_phases_that_end_on_the_exact_population_agree_with_the_loop():
    assert_agree(replace(POPULATION, plan=Phases((Phase(size=100, steps=5), Phase()))))


@pytest.mark.parametrize("init", list(Init))
@pytest.mark.parametrize("run", [TABLES, DEEP, INDEX], ids=["tables", "deep", "index"])
def test_inits_scales_and_rates_agree_with_the_loop(run, init):
    scale = LayerScale(init={Role.INPUT: 2, Role.BIAS: 0.5}, rate={Role.INPUT: 2, Role.READOUT: 3, Role.BIAS: 0})
    assert_agree(replace(run, model=replace(run.model, init=init), methods=(scale,), optimizer=SGD(0.01)))


@pytest.mark.parametrize("dim", [1, 2, 3, 20, 21, 24, 25, 33, 64, 65, 130])
def test_every_number_of_coordinates_agrees_with_the_loop(dim):
    assert_agree(replace(TABLES, task=Parity(dim, 1 + dim // 2), budget=Budget(5, 1)))


# --- gradients ----------------------------------------------------------------------------------------------------


def autograd(run, x, y):
    """The gradient of the mean loss by torch, in float64."""
    weights = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in run.fresh_weights().items()
    }
    module = run.model.module(run.task.signature).double()
    f = torch.func.functional_call(module, weights, (torch.from_numpy(x).double(),))
    run.loss(f, torch.from_numpy(y).double()).mean().backward()
    return {name: value.grad.numpy() for name, value in weights.items()}


def gradient(run):
    """Start minus end of one step at rate one, taken before a record could call it a divergence."""
    run = replace(run, optimizer=SGD(1.0), budget=Budget(steps=2, record_every=2))
    (outcome,) = Fused().train([Job(run, keep=(Step(1),))])
    start, end = run.fresh_weights(), outcome.states[Step(1)].weights
    return {name: start[name].astype(np.float64) - value for name, value in end.items()}


POLYNOMIALS = (Activation.QUADRATIC, Activation.HE2, Activation.HE3, Activation.HE4)


@settings(max_examples=80, deadline=None)
@given(
    index=st.booleans(),
    dim=st.integers(1, 30),
    width=st.sampled_from([1, 2, 7, 16, 17, 33]),
    depth=st.integers(1, 4),
    bias=st.booleans(),
    activation=st.sampled_from(list(Activation)),
    loss=st.sampled_from(LOSSES),
    batch=st.sampled_from([1, 3, 8, 64, 65, 129, 200]),
    whole=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_gradients_are_those_of_autograd(index, dim, width, depth, bias, activation, loss, batch, whole, seed):
    task = SingleIndex(dim, Hermite(2)) if index else Parity(dim, 1 + dim // 3)
    if activation in POLYNOMIALS:
        depth = min(depth, 2)  # polynomials of polynomials lose the digits that are compared, or overflow
    run = Run(
        task,
        MLP(width, depth, activation, bias),
        Fixed(batch) if whole else Online(),
        MSE() if index else loss,
        SGD(1.0),
        batch=FullBatch() if whole else Batch(batch),
        seed=seed,
    )
    data = task.sample(seed, np.arange(batch))
    expected = autograd(run, data.x, data.y)
    for name, value in gradient(run).items():
        scale = max(1.0, float(np.abs(expected[name]).max()))
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=3e-5 * scale, err_msg=name)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("activation", list(Activation))
@pytest.mark.parametrize("dim", [3, 6, 7, 11])
def test_gradients_on_the_population_are_those_of_autograd(dim, activation, bias):
    run = replace(POPULATION, task=Parity(dim, 3), model=MLP(5, 2, activation, bias))
    data = run.task.population(0)
    expected = autograd(run, data.x, data.y)
    for name, value in gradient(run).items():
        slack = 1e-6 * max(1.0, float(np.abs(expected[name]).max()) / 4)
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=slack, err_msg=name)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_a_step_on_a_million_points_is_that_of_the_materialised_product(bias):
    run = replace(POPULATION, task=Parity(20, 6), model=MLP(8, bias=bias))
    weights = {name: value.astype(np.float64) for name, value in run.fresh_weights().items()}
    w, a = weights["layers.0.weight"], weights["layers.1.weight"][0]
    b, c = weights.get("layers.0.bias", np.zeros(8)), weights.get("layers.1.bias", np.zeros(1))
    expected = {name: np.zeros_like(value) for name, value in weights.items()}
    for start in range(0, 2**20, 2**16):
        data = run.task.population(0, np.arange(start, start + 2**16))
        x, y = data.x.astype(np.float64), data.y.astype(np.float64)
        z = x @ w.T + b
        r = 2 * (np.maximum(z, 0) @ a + c - y) / 2**20
        s = (z > 0) * r[:, None] * a
        expected["layers.0.weight"] += s.T @ x
        expected["layers.1.weight"] += (r @ np.maximum(z, 0))[None]
        if bias:
            expected["layers.0.bias"] += s.sum(0)
            expected["layers.1.bias"] += r.sum()
    for name, value in gradient(run).items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=2e-7, err_msg=name)


# --- grouping, divergence, interruption ---------------------------------------------------------------------------


def same(one, two):
    return one.trace.status is two.trace.status and all(
        np.array_equal(curve, two.trace[name]) for name, curve in one.trace.values.items()
    )


@pytest.mark.parametrize("run", [TABLES, DEEP, INDEX, POPULATION], ids=["tables", "deep", "index", "population"])
def test_members_are_the_same_alone_together_in_any_order_and_in_threads(run):
    runs = [replace(run, optimizer=SGD(lr), budget=Budget(10, 5)).at(seed) for lr in (0.01, 0.03) for seed in range(4)]
    assert len({group_key(r) for r in runs}) == 1
    alone = [next(Fused().train([Job(r)])) for r in runs]
    together = list(Fused().train([Job(r) for r in runs]))
    backwards = list(Fused().train([Job(r) for r in reversed(runs)]))[::-1]
    with ThreadPoolExecutor(2) as pool:
        halves = list(pool.map(lambda part: list(Fused().train([Job(r) for r in part])), (runs[:3], runs[3:])))
    for one, *others in zip(alone, together, backwards, halves[0] + halves[1], strict=True):
        assert all(same(one, other) for other in others)


@pytest.mark.parametrize("run", [TABLES, DEEP, INDEX, POPULATION], ids=["tables", "deep", "index", "population"])
def test_a_member_that_diverges_leaves_its_neighbours_alone_and_may_come_first(run):
    run = replace(run, budget=Budget(10, 5))
    wild = replace(run, optimizer=SGD(1e9))
    jobs = [Job(run), Job(wild), Job(run.at(9))]
    outcomes = list(Fused().train(jobs))
    assert [o.trace.status for o in outcomes] == [Status.FINISHED, Status.DIVERGED, Status.FINISHED]
    assert outcomes[1].trace.steps.tolist() == [0]
    assert same(outcomes[0], next(Fused().train(jobs[:1])))
    assert same(outcomes[2], next(Fused().train(jobs[2:])))
    assert next(Fused(in_order=False).train(jobs)).trace.status is Status.DIVERGED


@pytest.mark.parametrize("run", [TABLES, DEEP, INDEX, POPULATION], ids=["tables", "deep", "index", "population"])
def test_members_resume_from_different_steps_bit_for_bit(run, tmp_path):
    run = replace(run, optimizer=AdamW(0.01), budget=Budget(12, 3))
    jobs = [Job(run.at(seed), checkpoint=tmp_path / f"{seed}") for seed in range(3)]
    for job, at in zip(jobs, (3, 9), strict=False):
        with pytest.raises(Interrupted):
            list(Fused().train([job], watch=lambda index, step, at=at: step == at))
    heard = []
    resumed = list(Fused().train(jobs, watch=lambda index, step: heard.append((index, step)) or False))
    assert sorted(heard) == [(0, 6), (0, 9), (0, 12), (1, 12), (2, 0), (2, 3), (2, 6), (2, 9), (2, 12)]
    for one, two in zip(resumed, Fused().train([Job(job.run) for job in jobs]), strict=True):
        assert same(one, two)


def test_a_stop_saves_every_member_and_hands_over_those_that_ended(tmp_path):
    run = replace(TABLES, budget=Budget(10, 5))
    wild = replace(run, optimizer=SGD(1e9))
    jobs = [Job(r, checkpoint=tmp_path / str(i)) for i, r in enumerate((run, wild, run.at(1)))]
    outcomes = []
    with pytest.raises(Interrupted):
        outcomes.extend(outcome for outcome in Fused().train(jobs, watch=lambda index, step: (index, step) == (2, 5)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "2"]


def test_checkpoints_are_written_as_time_passes(tmp_path):
    job = Job(replace(TABLES, budget=Budget(20, 10)), checkpoint=tmp_path / "run")
    list(Fused(checkpoint_seconds=0).train([job]))
    heard = []
    list(Fused().train([job], watch=lambda index, step: heard.append(step) or False))
    assert heard == [20]


def test_a_checkpoint_of_the_loop_is_not_used(tmp_path):
    job = Job(TABLES, checkpoint=tmp_path / "run")
    with pytest.raises(Interrupted):
        list(Loop().train([job], watch=lambda index, step: step == 7))
    assert same(next(Fused().train([job])), next(Fused().train([Job(TABLES)])))


# --- the boundary -------------------------------------------------------------------------------------------------


def test_what_is_not_supported_is_said():
    engine = Fused()
    assert engine.supports(TABLES) is None
    assert "depth 8" in engine.supports(replace(TABLES, model=MLP(4, depth=9)))
    assert "two-layer" in engine.supports(replace(DEEP, batch=FullBatch()))
    assert "cuda" in engine.supports(TABLES, "cuda")
    with pytest.raises(HeadstartError, match="abacus"):
        list(engine.train([Job(TABLES)], device="abacus"))


def test_keys_part_what_cannot_share_a_call():
    others = [
        replace(TABLES, task=Parity(9, 2)),
        replace(TABLES, model=MLP(14)),
        replace(TABLES, loss=Hinge()),
        replace(TABLES, optimizer=AdamW(0.1)),
        replace(TABLES, batch=Batch(36)),
        replace(TABLES, plan=Fixed(99)),
        replace(TABLES, budget=Budget(21)),
        replace(TABLES, optimizer=SGD(0.05, schedule=Cosine())),
        replace(TABLES, task=Parity(9, 3, ties=0)),
    ]
    assert len({group_key(run) for run in (TABLES, *others)}) == len(others) + 1
    assert group_key(TABLES) == group_key(replace(TABLES, model=MLP(13, init=Init.GAUSSIAN), seed=8))


def test_importing_the_engine_imports_no_kernels():
    code = "import sys, headstart.engines.fused; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_small_networks_train_without_torch_which_takes_seconds_to_import():
    code = """if True:
        import sys
        import headstart as hs
        hs.train(hs.Run(hs.Parity(8, 2), hs.MLP(8), hs.Online(), hs.MSE(), hs.SGD(0.1), budget=hs.Budget(2)))
        sys.exit("torch" in sys.modules)
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_a_first_call_compiles_in_under_twenty_seconds(tmp_path):
    code = """if True:
        import time
        from headstart.core.units import Batch, Budget
        from headstart.engines import Job
        from headstart.engines.fused import Fused
        from headstart.losses import MSE
        from headstart.models import MLP
        from headstart.optimizers import SGD
        from headstart.plans import Online
        from headstart.run import Run
        from headstart.tasks import Parity
        start = time.process_time()
        list(Fused().train([Job(Run(Parity(9, 3), MLP(8), Online(), MSE(), SGD(0.1), budget=Budget(1)))]))
        print(time.process_time() - start)
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert float(result.stdout) < 20
    assert list(tmp_path.iterdir())
