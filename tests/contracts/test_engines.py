"""What every engine must do. A new engine joins by adding one row to ENGINES.

The naive trainings below are written again from the definitions, in float64, and share no code with the engines.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.streams import Stream, integers
from headstart.core.trace import Status, Traces
from headstart.core.units import Batch, Budget, FullBatch, flops_per_sample
from headstart.engines import Interrupted, Job, choose, engines, loop
from headstart.engines.ensemble import Ensemble
from headstart.engines.fused import Fused
from headstart.engines.lower import lower
from headstart.losses import MSE, Correlation, CrossEntropy, Hinge, Logistic
from headstart.methods import LayerScale
from headstart.models import MLP, Readout, Symbols, Transformer
from headstart.models.mlp import Activation
from headstart.optimizers import SGD, AdamW
from headstart.plans import AutoPhases, ByRole, Fixed, Online, Phase, Phases, TwoSet
from headstart.run import Reaches, Run, Step
from headstart.tasks import Hermite, ModularAddition, Parity, SingleIndex

ENGINES = [
    pytest.param(loop.Loop(), id="loop"),
    pytest.param(Ensemble(), id="ensemble"),
    pytest.param(Fused(), id="fused"),
]
every_engine = pytest.mark.parametrize("engine", ENGINES)

PARITY = Run(
    Parity(8, 2), MLP(16), Online(), MSE(), SGD(0.1), batch=Batch(8), budget=Budget(steps=40, record_every=10), seed=3
)
INDEX = replace(PARITY, task=SingleIndex(6, Hermite(2)), optimizer=SGD(0.01), seed=5)
ADAM = replace(PARITY, model=MLP(12, depth=4, activation=Activation.GELU), optimizer=AdamW(0.01), plan=Fixed(50))
PHASES = replace(
    PARITY, plan=Phases((Phase(size=16, steps=15), Phase(size=32, epochs=2.5), Phase()), replacement=False), seed=7
)
GD = replace(PARITY, plan=Fixed(100), batch=FullBatch(), loss=Logistic())
DIVERGING = replace(PARITY, optimizer=SGD(1e6))
TWO_SET = replace(PARITY, plan=TwoSet(12, 0.5))
AUTO = replace(PARITY, plan=AutoPhases(4, sizes=(12, 40), max_epochs=6), optimizer=SGD(0.2), loss=Logistic())
BY_ROLE = replace(PARITY, plan=ByRole(Fixed(20), (Role.READOUT,)))
ENCODER = replace(ADAM, model=Transformer(8, heads=2, mlp_width=8))
DECODER = replace(
    ADAM,
    task=ModularAddition(30, 5),
    model=Transformer(8, heads=2, tokens=Symbols(10), causal=True, readout=Readout.LAST, num_outputs=5, qk_norm=True),
    loss=CrossEntropy(),
)
RUNS = {
    "parity": PARITY,
    "index": INDEX,
    "adam": ADAM,
    "phases": PHASES,
    "gd": GD,
    "two_set": TWO_SET,
    "auto": AUTO,
    "by_role": BY_ROLE,
    "encoder": ENCODER,
    "decoder": DECODER,
}
every_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def train(engine, *jobs, **options):
    """The outcomes of jobs or runs, or a skip where the engine says that it lacks something."""
    jobs = [job if isinstance(job, Job) else Job(job) for job in jobs]
    for job in jobs:
        if lacking := engine.supports(job.run):
            pytest.skip(f"{engine.name}: {lacking}")
    return list(engine.train(jobs, **options))


def final_weights(engine, run, **options):
    end = Step(run.budget.steps)
    (outcome,) = train(engine, Job(run, keep=(end,)), **options)
    return outcome.weights[end]


def assert_same_trace(one, two):
    assert (one.cell, one.seed, one.status) == (two.cell, two.seed, two.status)
    assert one.values.keys() == two.values.keys()
    for name in ("steps", "samples", "flops"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    for name, curve in one.values.items():
        assert np.array_equal(curve, two.values[name]), name


def assert_same_weights(one, two, **tolerance):
    assert one.keys() == two.keys()
    for name, value in one.items():
        if tolerance:
            np.testing.assert_allclose(value, two[name], err_msg=name, **tolerance)
        else:
            assert np.array_equal(value, two[name]), name


# --- the naive trainings ------------------------------------------------------------------------------------------


def naive_batch(run, step):
    """The batch of a step, from the definitions of Online, Fixed and FullBatch."""
    if isinstance(run.batch, FullBatch):
        ids = np.arange(run.plan.size)
    elif isinstance(run.plan, Online):
        ids = step * run.batch.size + np.arange(run.batch.size)
    else:
        ids = integers(run.seed, Stream.ORDER, [step], run.batch.size, run.plan.size)[0]
    data = run.task.sample(run.seed, ids)
    return data.x.astype(np.float64), data.y.astype(np.float64)


SLOPES = {
    "mse": lambda f, y: 2 * (f - y),
    "hinge": lambda f, y: np.where(y * f < 1, -y, 0.0),
    "logistic": lambda f, y: -y / (1 + np.exp(y * f)),
    "correlation": lambda f, y: -y,
}


def naive_descent(run, batch=naive_batch, start=None):
    """Gradient descent on a two-layer ReLU network with biases, the gradients written out by hand."""
    start = start or run.model.initial_weights(run.task.dim, run.seed)
    start = {k: v.astype(np.float64) for k, v in start.items()}
    w, b, a, c = (start[f"layers.{i}.{kind}"] for i in (0, 1) for kind in ("weight", "bias"))
    for step in range(run.budget.steps):
        x, y = batch(run, step)
        z = x @ w.T + b
        h = np.maximum(z, 0)
        slope = SLOPES[run.loss.name]((h @ a.T + c)[:, 0], y) / len(y)
        back = slope[:, None] * a * (z > 0)
        lr = run.optimizer.lr
        a, c = a - lr * slope @ h, c - lr * slope.sum()
        w, b = w - lr * back.T @ x, b - lr * back.sum(axis=0)
    return {"layers.0.weight": w, "layers.0.bias": b, "layers.1.weight": a, "layers.1.bias": c}


def naive_adam(run):
    """torch.optim.AdamW on an MLP written with plain tensors."""
    weights = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in run.model.initial_weights(run.task.dim, run.seed).items()
    }
    o = run.optimizer
    adam = torch.optim.AdamW(
        weights.values(), lr=o.lr, betas=(o.beta1, o.beta2), eps=o.eps, weight_decay=o.weight_decay
    )
    for step in range(run.budget.steps):
        h, y = (torch.from_numpy(a) for a in naive_batch(run, step))
        for layer in range(run.model.depth):
            h = h @ weights[f"layers.{layer}.weight"].T + weights[f"layers.{layer}.bias"]
            h = torch.nn.functional.gelu(h) if layer < run.model.depth - 1 else h
        adam.zero_grad()
        ((h[:, 0] - y) ** 2).mean().backward()
        adam.step()
    return {name: value.detach().numpy() for name, value in weights.items()}


@every_engine
@pytest.mark.parametrize("loss", [MSE(), Hinge(), Logistic(), Correlation()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    ("plan", "batch"),
    [(Online(), Batch(8)), (Fixed(30), Batch(8)), (Fixed(100), FullBatch())],
    ids=["online", "sgd", "gd"],
)
def test_descent_agrees_with_a_naive_one(engine, loss, plan, batch):
    run = replace(PARITY, loss=loss, plan=plan, batch=batch, budget=Budget(12))
    assert_same_weights(final_weights(engine, run), naive_descent(run), rtol=1e-4, atol=1e-6)


@every_engine
def test_descent_on_gaussian_inputs_agrees_with_a_naive_one(engine):
    run = replace(INDEX, budget=Budget(12))
    assert_same_weights(final_weights(engine, run), naive_descent(run), rtol=1e-4, atol=1e-6)


@every_engine
def test_adamw_agrees_with_that_of_torch(engine):
    run = replace(ADAM, optimizer=AdamW(0.01, 0.8, 0.95, 1e-6, 0.1), budget=Budget(12))
    assert_same_weights(final_weights(engine, run), naive_adam(run), rtol=1e-3, atol=1e-5)


@every_engine
def test_the_exact_population_is_gradient_descent_on_every_point(engine):
    run = replace(PARITY, batch=FullBatch(), budget=Budget(10))
    points = np.array(list(product([-1.0, 1.0], repeat=8)))
    naive = naive_descent(run, lambda run, step: (points, points[:, 0] * points[:, 1]))
    assert_same_weights(final_weights(engine, run), naive, rtol=1e-4, atol=1e-6)


@every_engine
def test_phases_agree_with_a_naive_training_on_each_pool_in_turn(engine):
    plan = Phases((Phase(size=16, steps=5), Phase(size=40, steps=4), Phase()))
    run = replace(PARITY, plan=plan, budget=Budget(12))

    def batch(run, step):
        if step < 9:
            ids = integers(run.seed, Stream.ORDER, [step], 8, 16 if step < 5 else 40)[0]
        else:
            ids = 40 + (step - 9) * 8 + np.arange(8)
        data = run.task.sample(run.seed, ids)
        return data.x.astype(np.float64), data.y.astype(np.float64)

    assert_same_weights(final_weights(engine, run), naive_descent(run, batch), rtol=1e-4, atol=1e-6)


def legs_of_auto_phases(run):
    """The pool of every step of AUTO, from its definition: the batches' accuracies are those of the naive weights."""
    sizes, pool, accuracies, pools = run.plan.pool_sizes(run.batch, run.budget.steps), 0, [], []
    weights = dict(run.model.initial_weights(run.task.dim, run.seed))
    for step in range(run.budget.steps):
        epoch = -(-sizes[pool] // run.batch.size)
        over = len(accuracies) == round(run.plan.max_epochs * sizes[pool] / run.batch.size)
        learned = accuracies and len(accuracies) % epoch == 0 and np.mean(accuracies[-epoch:]) >= run.plan.target
        if pool + 1 < len(sizes) and (learned or over):
            pool, accuracies = pool + 1, []
        pools.append(sizes[pool])
        ids = integers(run.seed, Stream.ORDER, [step], run.batch.size, sizes[pool])[0]
        data = run.task.sample(run.seed, ids)
        x, y = data.x.astype(np.float64), data.y.astype(np.float64)
        h = np.maximum(x @ weights["layers.0.weight"].T + weights["layers.0.bias"], 0)
        accuracies.append(np.mean((h @ weights["layers.1.weight"].T + weights["layers.1.bias"])[:, 0] * y > 0))
        one = replace(run, budget=Budget(1))
        weights = naive_descent(one, lambda run, _, x=x, y=y: (x, y), weights)
    return pools, weights


@every_engine
def test_auto_phases_agree_with_a_naive_training_that_watches_its_batches(engine):
    runs = [AUTO.at(seed) for seed in range(5)]
    outcomes = train(engine, *(Job(run, keep=(Step(40),)) for run in runs))
    naive = [legs_of_auto_phases(run) for run in runs]
    for outcome, (_, weights) in zip(outcomes, naive, strict=True):
        assert_same_weights(outcome.weights[Step(40)], weights, rtol=1e-3, atol=1e-5)
    assert len({tuple(pools) for pools, _ in naive}) > 1, "members at different legs are what this test is about"
    assert any(len(set(pools)) > 2 for pools, _ in naive)


def test_a_role_that_the_model_lacks_is_named():
    run = replace(PARITY, plan=ByRole(Fixed(20), (Role.QUERY,)))
    with pytest.raises(HeadstartError, match=r"MLP has none of these roles; its own are input"):
        lower(run)


@every_engine
def test_auto_phases_take_full_batches(engine):
    run = replace(AUTO, batch=FullBatch(), budget=Budget(10, 1))
    (outcome,) = train(engine, run)
    taken = np.diff(outcome.trace.samples).tolist()
    assert taken == sorted(taken)
    assert set(taken) <= set(run.plan.pool_sizes(run.batch, 10))


@every_engine
def test_two_sets_agree_with_a_naive_training_on_their_batches(engine):
    course = TWO_SET.plan.course(TWO_SET.batch, 40)

    def batch(run, step):
        data = run.task.sample(run.seed, course.ids(course.start(run.seed), step))
        return data.x.astype(np.float64), data.y.astype(np.float64)

    finite = replace(TWO_SET, plan=TwoSet(12, 0.5, total=30))
    course = finite.plan.course(finite.batch, 40)
    assert_same_weights(final_weights(engine, finite), naive_descent(finite, batch), rtol=1e-4, atol=1e-6)
    course = TWO_SET.plan.course(TWO_SET.batch, 40)
    assert_same_weights(final_weights(engine, TWO_SET), naive_descent(TWO_SET, batch), rtol=1e-4, atol=1e-6)


@every_engine
def test_a_plan_by_role_agrees_with_two_naive_gradients_at_the_same_weights(engine):
    weights = {k: v.astype(np.float64) for k, v in BY_ROLE.fresh_weights().items()}
    one_step = replace(BY_ROLE, budget=Budget(1))
    for step in range(12):
        small = naive_batch(replace(BY_ROLE, plan=Fixed(20)), step)
        data = BY_ROLE.task.sample(BY_ROLE.seed, 2**40 + step * 8 + np.arange(8))
        fresh = data.x.astype(np.float64), data.y.astype(np.float64)
        one, other = (naive_descent(one_step, lambda run, _, b=b: b, weights) for b in (small, fresh))
        weights = one | {"layers.1.weight": other["layers.1.weight"]}
    run = replace(BY_ROLE, budget=Budget(12))
    assert_same_weights(final_weights(engine, run), weights, rtol=1e-4, atol=1e-6)
    (outcome,) = train(engine, run)
    assert outcome.trace.samples.tolist() == [0, 12 * 16]


@every_engine
@pytest.mark.parametrize("run", [ENCODER, DECODER], ids=["encoder", "decoder"])
def test_a_transformer_agrees_with_plain_torch_in_float64(engine, run):
    run = replace(run, budget=Budget(12))
    module = run.model.module(run.task.dim).double()
    module.load_state_dict({k: torch.from_numpy(v).double() for k, v in run.fresh_weights().items()})
    o = run.optimizer
    adam = torch.optim.AdamW(
        module.parameters(), lr=o.lr, betas=(o.beta1, o.beta2), eps=o.eps, weight_decay=o.weight_decay
    )
    for step in range(12):
        x, y = (torch.from_numpy(a) for a in naive_batch(run, step))
        prediction = module(x)
        if run.loss.name == "mse":
            loss = ((prediction - y) ** 2).mean()
        else:
            loss = torch.nn.functional.cross_entropy(prediction, y.long())
        adam.zero_grad()
        loss.backward()
        adam.step()
    expected = {name: value.detach().numpy() for name, value in module.named_parameters()}
    # Softmax ignores what the biases of keys add, so their gradients are rounding, of which AdamW makes whole steps.
    names = [name for name in expected if "key.bias" not in name]
    got = final_weights(engine, run)
    assert_same_weights({n: got[n] for n in names}, {n: expected[n] for n in names}, rtol=1e-2, atol=2e-4)


@every_engine
def test_the_records_are_those_of_the_naive_weights(engine):
    (outcome,) = train(engine, replace(PARITY, plan=Fixed(30), budget=Budget(12)))
    naive, run = naive_descent(outcome.run), outcome.run

    def predict(x):
        h = np.maximum(x @ naive["layers.0.weight"].T + naive["layers.0.bias"], 0)
        return (h @ naive["layers.1.weight"].T + naive["layers.1.bias"])[:, 0]

    test = run.task.sample(run.seed, np.arange(4096), Stream.EVALUATION)
    next_x, next_y = naive_batch(run, 12)
    last = {name: curve[-1] for name, curve in outcome.trace.values.items()}
    expected = {
        "test_loss": np.mean((predict(test.x) - test.y) ** 2),
        "test_accuracy": np.mean(predict(test.x) * test.y > 0),
        "train_loss": np.mean((predict(next_x) - next_y) ** 2),
        "train_accuracy": np.mean(predict(next_x) * next_y > 0),
        "norm_input": np.linalg.norm(naive["layers.0.weight"]),
        "norm_readout": np.linalg.norm(naive["layers.1.weight"]),
        "norm_bias": np.hypot(np.linalg.norm(naive["layers.0.bias"]), np.linalg.norm(naive["layers.1.bias"])),
    }
    assert last.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(last[name], value, rtol=1e-3, err_msg=name)


# --- determinism and grouping -------------------------------------------------------------------------------------


@every_engine
@every_run
def test_training_twice_gives_the_same_trace(engine, run):
    (one,), (two,) = train(engine, run), train(engine, run)
    assert_same_trace(one.trace, two.trace)
    assert one.trace.status is Status.FINISHED
    assert (one.trace.cell, one.trace.seed) == (run.cell, run.seed)


@every_engine
def test_a_run_does_not_depend_on_its_neighbours_or_their_order(engine):
    runs = [run for run in RUNS.values() if engine.supports(run) is None]
    runs += [PARITY.at(0), PARITY.at(1), ADAM.at(9)]
    alone = [train(engine, run)[0] for run in runs]
    together = train(engine, *runs)
    reverse = train(engine, *reversed(runs))[::-1]
    assert [outcome.run for outcome in together] == runs
    for one, two, three in zip(alone, together, reverse, strict=True):
        assert_same_trace(one.trace, two.trace)
        assert_same_trace(one.trace, three.trace)


@every_engine
def test_seeds_give_different_runs(engine):
    one, two = train(engine, PARITY.at(0), PARITY.at(1))
    assert one.trace.cell == two.trace.cell
    assert not np.array_equal(one.trace["test_loss"], two.trace["test_loss"])


@every_engine
def test_training_leaves_the_global_generators_alone(engine):
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    train(engine, PARITY)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


@every_engine
@pytest.mark.parametrize("threads", [1, 2])
def test_training_neither_depends_on_the_threads_of_torch_nor_changes_them(engine, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        (outcome,) = train(engine, GD)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert_same_trace(outcome.trace, train(engine, GD)[0].trace)


# --- what is recorded ---------------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize(("steps", "every", "recorded"), [(10, 5, [0, 5, 10]), (10, 4, [0, 4, 8, 10]), (3, 20, [0, 3])])
def test_the_start_every_interval_and_the_end_are_recorded(engine, steps, every, recorded):
    (outcome,) = train(engine, replace(PARITY, budget=Budget(steps, every)))
    assert outcome.trace.steps.tolist() == recorded
    assert all(len(curve) == len(recorded) for curve in outcome.trace.values.values())


@every_engine
@pytest.mark.parametrize("every", [1, 2, 7])
def test_how_often_a_run_records_does_not_change_it(engine, every):
    budget = Budget(14, 14)
    (one,), (two,) = (
        train(engine, replace(PHASES, plan=Phases((Phase(size=16, steps=5), Phase())), budget=b))
        for b in (budget, replace(budget, record_every=every))
    )
    assert one.trace["test_loss"][-1] == two.trace["test_loss"][-1]


@every_engine
def test_compute_is_the_samples_in_all_gradients_with_repeats(engine):
    budget = Budget(8, 2)
    switching = Phases((Phase(size=10, steps=3), Phase(size=30, steps=2), Phase()))
    mini, whole, exact, phases, mini_phases = (
        outcome.trace
        for outcome in train(
            engine,
            replace(PARITY, budget=budget),
            replace(GD, budget=budget),
            replace(PARITY, batch=FullBatch(), budget=budget),
            replace(GD, plan=switching, budget=budget),
            replace(PARITY, plan=switching, budget=budget),
        )
    )
    assert mini.samples.tolist() == mini_phases.samples.tolist() == [0, 16, 32, 48, 64]
    assert whole.samples.tolist() == [0, 200, 400, 600, 800]
    assert exact.samples.tolist() == [0, 512, 1024, 1536, 2048]
    assert phases.samples.tolist() == [0, 20, 60, 90 + 256, 90 + 3 * 256]
    assert mini.flops.tolist() == [n * flops_per_sample(MLP(16).parameters(8)) for n in mini.samples]


@every_engine
def test_weights_are_kept_at_the_moments_asked_for(engine):
    moments = (Step(0), Step(7), Step(40), Reaches("test_loss", 1e9), Reaches("test_loss", -1.0))
    (kept,) = train(engine, Job(PARITY, keep=moments))
    assert set(kept.weights) == set(moments)
    assert kept.weights[moments[4]] is None
    assert_same_weights(kept.weights[Step(0)], PARITY.fresh_weights())
    assert_same_weights(kept.weights[moments[3]], PARITY.fresh_weights())
    assert_same_weights(kept.weights[Step(7)], final_weights(engine, replace(PARITY, budget=Budget(7))))
    assert_same_trace(kept.trace, train(engine, PARITY)[0].trace)


@every_engine
def test_a_metric_is_reached_at_the_first_record_at_or_past_it(engine):
    (outcome,) = train(engine, GD)
    steps, losses = outcome.trace.steps, outcome.trace["train_loss"]
    target = float(losses[2])
    first = int(steps[np.flatnonzero(losses <= target)[0]])
    at = Reaches("train_loss", target)
    (kept,) = train(engine, Job(GD, keep=(at, Step(first))))
    assert_same_weights(kept.weights[at], kept.weights[Step(first)])


@every_engine
def test_the_watch_hears_of_every_record_of_every_job(engine):
    heard = []
    train(engine, PARITY, PHASES, watch=lambda index, step: heard.append((index, step)) or False)
    assert sorted(heard) == [(index, step) for index in (0, 1) for step in (0, 10, 20, 30, 40)]


@every_engine
def test_a_job_starts_from_the_weights_it_is_given(engine):
    half = replace(GD, budget=Budget(20, 10))
    (outcome,) = train(engine, Job(half, start=final_weights(engine, half), keep=(Step(20),)))
    assert_same_weights(outcome.weights[Step(20)], final_weights(engine, GD))


# --- interruption -------------------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize("run", [PARITY, ADAM, PHASES, GD, AUTO], ids=["sgd", "adamw", "phases", "gd", "auto"])
@pytest.mark.parametrize("at", [0, 10, 20, 30])
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(engine, run, at, tmp_path):
    moments = (Step(5), Step(33), Step(40), Reaches("test_loss", 1e9), Reaches("test_loss", -1e9))
    (whole,) = train(engine, Job(run, keep=moments))
    job = Job(run, keep=moments, checkpoint=tmp_path / "deep" / "run.ckpt")
    with pytest.raises(Interrupted):
        train(engine, job, watch=lambda index, step: step == at)
    assert job.checkpoint.exists()
    heard = []
    (resumed,) = train(engine, job, watch=lambda index, step: heard.append(step) or False)
    assert heard == [step for step in (0, 10, 20, 30, 40) if step > at]
    assert_same_trace(resumed.trace, whole.trace)
    assert resumed.weights[moments[4]] is whole.weights[moments[4]] is None
    for moment in moments[:4]:
        assert_same_weights(resumed.weights[moment], whole.weights[moment])


@every_engine
def test_a_run_can_be_interrupted_at_every_record(engine, tmp_path):
    job = Job(PHASES, checkpoint=tmp_path / "run.ckpt")
    for _ in range(4):
        with pytest.raises(Interrupted):
            train(engine, job, watch=lambda index, step: True)
    (resumed,) = train(engine, job, watch=lambda index, step: True)
    assert_same_trace(resumed.trace, train(engine, PHASES)[0].trace)


@every_engine
def test_an_interruption_leaves_no_other_file_behind(engine, tmp_path):
    with pytest.raises(Interrupted):
        train(engine, Job(PARITY, checkpoint=tmp_path / "run.ckpt"), watch=lambda index, step: True)
    assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt"]


@every_engine
def test_a_damaged_checkpoint_is_not_used(engine, tmp_path):
    job = Job(PARITY, checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(Interrupted):
        train(engine, job, watch=lambda index, step: step == 20)
    job.checkpoint.write_bytes(job.checkpoint.read_bytes()[:1000])
    assert_same_trace(train(engine, job)[0].trace, train(engine, PARITY)[0].trace)


# --- divergence ---------------------------------------------------------------------------------------------------


@every_engine
def test_a_diverging_run_keeps_its_finite_records_and_leaves_its_neighbours_alone(engine):
    before, diverged, after = train(engine, PARITY, DIVERGING, PARITY.at(0))
    assert diverged.trace.status is Status.DIVERGED
    assert diverged.trace.steps.tolist() == [0]
    assert all(np.isfinite(curve).all() and len(curve) == 1 for curve in diverged.trace.values.values())
    assert_same_trace(before.trace, train(engine, PARITY)[0].trace)
    assert_same_trace(after.trace, train(engine, PARITY.at(0))[0].trace)


@every_engine
def test_a_run_that_begins_beyond_all_bounds_has_diverged_without_a_record(engine):
    run = replace(PARITY, methods=(LayerScale(init={Role.READOUT: 1e38}),))
    (outcome,) = train(engine, Job(run, keep=(Step(40),)))
    assert outcome.trace.status is Status.DIVERGED
    assert len(outcome.trace.steps) == 0
    assert outcome.weights == {Step(40): None}


@every_engine
def test_a_loss_ten_thousand_times_the_first_is_a_divergence_though_it_is_finite(engine):
    # At this rate some of these runs blow up slowly enough to be finite at a record, far beyond any loss of the task.
    run = replace(PARITY, task=SingleIndex(6, Hermite(2)), model=MLP(4), optimizer=SGD(0.4), budget=Budget(40, 1))
    outcomes = train(engine, *(run.at(seed) for seed in range(6)))
    for outcome in outcomes:
        losses = outcome.trace["test_loss"]
        assert losses.max() <= 1e4 * max(1, losses[0])
    assert any(outcome.trace.status is Status.DIVERGED for outcome in outcomes)


# --- scales and rates ---------------------------------------------------------------------------------------------


@every_engine
@every_run
def test_layers_scaled_by_one_are_the_untouched_run(engine, run):
    ones = LayerScale(init=dict.fromkeys(Role, 1), rate=dict.fromkeys(Role, 1))
    assert_same_weights(final_weights(engine, replace(run, methods=(ones,))), final_weights(engine, run))
    assert_same_weights(final_weights(engine, replace(run, methods=(LayerScale(),))), final_weights(engine, run))


@every_engine
def test_a_scale_multiplies_the_initial_weights_of_its_role_only(engine):
    run = replace(PARITY, methods=(LayerScale(init={Role.READOUT: 3}), LayerScale(init={Role.READOUT: 0.5})))
    (outcome,) = train(engine, Job(run, keep=(Step(0),)))
    expected = PARITY.fresh_weights()
    expected["layers.1.weight"] = expected["layers.1.weight"] * np.float32(1.5)
    assert_same_weights(outcome.weights[Step(0)], expected)


@every_engine
@pytest.mark.parametrize("optimizer", [SGD, AdamW])
@pytest.mark.parametrize("role", [Role.INPUT, Role.READOUT, Role.BIAS])
def test_a_rate_of_zero_freezes_its_role_and_no_other(engine, optimizer, role):
    run = replace(PARITY, optimizer=optimizer(0.05, rates={role: 0}))
    start, end = run.fresh_weights(), final_weights(engine, run)
    for parameter in run.model.parameters(8):
        assert np.array_equal(start[parameter.name], end[parameter.name]) == (parameter.role is role)


@every_engine
def test_a_rate_by_role_and_a_scaled_rate_are_the_same(engine):
    by_optimizer = replace(PARITY, optimizer=SGD(0.125, rates={Role.READOUT: 0.25}))
    by_method = replace(PARITY, optimizer=SGD(0.125), methods=(LayerScale(rate={Role.READOUT: 2}),))
    assert_same_weights(final_weights(engine, by_optimizer), final_weights(engine, by_method))


# --- the boundary -------------------------------------------------------------------------------------------------


@every_engine
def test_a_device_that_is_not_there_is_refused(engine):
    with pytest.raises(HeadstartError, match=r"--device abacus.*there is cpu"):
        train(engine, PARITY, device="abacus")


@every_engine
@every_run
def test_an_engine_estimates_time_and_memory(engine, run):
    if engine.supports(run) is None:
        longer = replace(run, budget=Budget(10 * run.budget.steps, 10))
        assert 0 < engine.seconds(run) < engine.seconds(longer) < 10
        assert 0 < engine.memory(run) < 1e8


def test_an_engine_is_chosen_for_every_run():
    for run in RUNS.values():
        assert choose(run).engine in engines()
        assert choose(run).engine.supports(run) is None


@pytest.mark.parametrize("chunk", [1, 7, 99, 100])
def test_the_loop_sums_a_full_batch_over_chunks(chunk, monkeypatch):
    whole = final_weights(loop.Loop(), replace(GD, budget=Budget(5)))
    monkeypatch.setattr(loop, "CHUNK", chunk)
    run = replace(GD, budget=Budget(5))
    monkeypatch.setattr(type(run.task), "num_test", 16)
    assert_same_weights(final_weights(loop.Loop(), run), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_the_loop_draws_the_same_batches_in_blocks_of_any_length(block, monkeypatch):
    whole = train(loop.Loop(), PHASES)[0].trace
    monkeypatch.setattr(loop, "BLOCK", block)
    assert_same_trace(train(loop.Loop(), PHASES)[0].trace, whole)


def test_the_loop_writes_checkpoints_as_time_passes(tmp_path):
    job = Job(PARITY, checkpoint=tmp_path / "run.ckpt")
    train(loop.Loop(checkpoint_seconds=0), job)
    heard = []
    (again,) = train(loop.Loop(), job, watch=lambda index, step: heard.append(step) or False)
    assert heard == [40]
    assert_same_trace(again.trace, train(loop.Loop(), PARITY)[0].trace)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_checkpoint_of_another_run_or_of_anything_else_is_not_used(engine, tmp_path):
    run = Run(Parity(8, 2), MLP(16), Online(), MSE(), SGD(0.1), batch=Batch(8), budget=Budget(40, 10))
    path = tmp_path / "checkpoint"
    others = [run.at(7), replace(run, model=MLP(17))]
    for other in others:
        path.unlink(missing_ok=True)
        with pytest.raises(Interrupted):
            list(engine.train([Job(run, checkpoint=path)], watch=lambda index, step: step == 20))
        (resumed,) = engine.train([Job(other, checkpoint=path)])
        (straight,) = engine.train([Job(other)])
        assert np.array_equal(resumed.trace["test_loss"], straight.trace["test_loss"])
    torch.save({"x": 1}, path)
    (resumed,) = engine.train([Job(run, checkpoint=path)])
    assert resumed.trace.status is Status.FINISHED


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_is_not_finite_from_the_start_has_no_records_and_can_still_be_shown(engine):
    run = Run(Parity(8, 2), MLP(16), Online(), MSE(), SGD(0.1), batch=Batch(8), budget=Budget(40, 10))
    (good,) = engine.train([Job(run)])
    (bad,) = engine.train([Job(replace(run, methods=(LayerScale(init={Role.READOUT: 1e38}),)))])
    assert bad.trace.status is Status.DIVERGED
    assert Traces((good.trace, bad.trace)).stack("test_accuracy", 0.5)[1].tolist() == [0.5] * 5
    assert "without records" in repr(Traces((bad.trace,)))
    assert "without records" in Traces((bad.trace,))._repr_html_()
