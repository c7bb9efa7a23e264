"""What every engine must do. A new engine joins by adding one row to ENGINES.

The naive trainings below are written again from the definitions, in float64, and share no code with the engines.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.core.metric import class_accuracy, sign_accuracy
from headstart.core.roles import Parameter, Role
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.state import State
from headstart.core.streams import Stream, integers, normals, signs
from headstart.core.trace import Status, Traces
from headstart.core.units import Batch, Budget, FullBatch, flops_per_sample
from headstart.engines import Interrupted, Job, choose, engines, loop
from headstart.engines.ensemble import Ensemble
from headstart.engines.fused import Fused
from headstart.engines.lower import lower
from headstart.losses import MSE, Correlation, CrossEntropy, Hinge, Logistic
from headstart.methods import GradientFilter, InBall, LayerScale, Linearised, OnSphere, PhaseLoss
from headstart.models import MLP, AttentionOnly, Embedding, Readout, ThresholdFilter, Transformer
from headstart.models.mlp import Activation
from headstart.optimizers import SGD, Adafactor, AdamW, Cosine, StepDecay, WarmUp, WarmUpStableDecay
from headstart.plans import AutoPhases, ByRole, Fixed, Online, Phase, Phases, TwoSet
from headstart.run import Reaches, Run, Step
from headstart.tasks import (
    DecisionList,
    Hermite,
    LocalSignal,
    ModularArithmetic,
    MultiIndex,
    Parity,
    ProductOf,
    SingleIndex,
    Split,
    Tanh,
    row_numbers,
)

# Derivatives along a direction make torch compile some of its own parts, and say that the way it does so is old.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated:DeprecationWarning")


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors are slower on two threads, the naive trainings' above all."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class On:
    """An engine that trains on a device of its own unless it is told otherwise."""

    def __init__(self, engine, device):
        self.engine, self.device = engine, device

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def supports(self, run):
        return self.engine.supports(run, self.device)

    def train(self, jobs, device=None, watch=None):
        return self.engine.train(jobs, device or self.device, watch)


def on_cuda(engine):
    """Experimental: the suite runs on a graphics card where torch finds one, and no machine of ours has one."""
    there = torch.cuda.is_available()
    return [pytest.param(On(engine, "cuda"), id=f"{engine.name} on cuda")] if there else []


FAST = [pytest.param(Ensemble(), id="ensemble"), pytest.param(Fused(), id="fused"), *on_cuda(Ensemble())]
ENGINES = [pytest.param(loop.Loop(), id="loop"), *FAST, *on_cuda(loop.Loop())]
every_engine = pytest.mark.parametrize("engine", ENGINES)
fast_engine = pytest.mark.parametrize("engine", FAST)


# --- parts of somebody else ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunningSum:
    """Five symbols out of three; the label of each is the sum of those up to it, modulo 3. The first may be hidden."""

    hidden: int = 0

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)
    num_test: ClassVar[int] = 64
    population_size: ClassVar[None] = None
    signature: ClassVar[Signature] = Signature((5,), symbols=3, outputs=(5, 3))
    metrics: ClassVar = (class_accuracy(3),)

    def sample(self, seed, ids, stream=Stream.DATA):
        x = integers(seed, stream, ids, 5, 3)
        weight = np.tile(np.arange(5) >= self.hidden, (len(x), 1)).astype(np.float32)
        return Samples(x, x.cumsum(axis=1) % 3, weight if self.hidden else None)

    def population(self, seed, ids=None):
        raise HeadstartError("RunningSum: use Fixed")


@dataclass(frozen=True)
class Uneven(Parity):
    """Parity whose samples with x_0 = 1 count three times as much as the others."""

    def sample(self, seed, ids, stream=Stream.DATA):
        data = super().sample(seed, ids, stream)
        return replace(data, weight=2 + data.x[:, 0])


@dataclass(frozen=True)
class Noisy:
    """Rows of which many have the same inputs and not the same labels, as real data may."""

    num_train: ClassVar[int] = 24
    num_test: ClassVar[int] = 40
    population_size: ClassVar[int] = 24
    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("mse",)
    signature: ClassVar[Signature] = Signature((2,))
    metrics: ClassVar = (sign_accuracy(),)

    def sample(self, seed, ids, stream=Stream.DATA):
        rows = signs(0, Stream.DATA, row_numbers("Noisy", seed, ids, stream, 24, 40, 64), 3)
        return Samples(np.ascontiguousarray(rows[:, :2]), np.ascontiguousarray(rows[:, 2]))

    def population(self, seed, ids=None):
        return self.sample(seed, np.arange(24) if ids is None else ids)


@dataclass(frozen=True)
class BatchNormed:
    """A hidden layer whose pre-activations are normalised over the batch: it has buffers, and two modes."""

    width: int = 6

    semantics: ClassVar[int] = 1

    def parameters(self, signature):
        return (
            Parameter("one.weight", Role.INPUT, 0, (self.width, signature.num_inputs), signature.num_inputs),
            Parameter("norm.weight", Role.NORM, 0, (self.width,), 1),
            Parameter("norm.bias", Role.BIAS, 0, (self.width,), 1),
            Parameter("two.weight", Role.READOUT, 1, (1, self.width), self.width),
        )

    def initial_weights(self, signature, seed):
        drawn = {
            p.name: normals(seed, Stream.INIT, [i], int(np.prod(p.shape)))[0].reshape(p.shape) / np.float32(3)
            for i, p in enumerate(self.parameters(signature))
        }
        return drawn | {"norm.weight": np.ones(self.width, dtype=np.float32)}

    def module(self, signature):
        width = self.width

        class Network(torch.nn.Module):
            def __init__(self):
                super().__init__()
                linear = torch.nn.utils.skip_init
                self.one = linear(torch.nn.Linear, signature.num_inputs, width, bias=False)
                self.norm = torch.nn.BatchNorm1d(width)
                self.two = linear(torch.nn.Linear, width, 1, bias=False)

            def forward(self, x):
                return self.two(torch.relu(self.norm(self.one(x)))).squeeze(-1)

        return Network()


# --- the runs -----------------------------------------------------------------------------------------------------

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
    task=ModularArithmetic(30, 5),
    model=Transformer(8, heads=2, causal=True, readout=Readout.LAST, qk_norm=True),
    loss=CrossEntropy(),
)
MOMENTUM, NESTEROV, COUPLED, DECOUPLED = (
    replace(PARITY, optimizer=SGD(0.03, 0.9, **options))
    for options in (
        {},
        {"nesterov": True},
        {"weight_decay": 0.2},
        {"weight_decay": 0.2, "decay": "decoupled"},
    )
)
ADAM_COUPLED = replace(PARITY, optimizer=AdamW(0.01, weight_decay=0.1, decay="coupled"))
SCHEDULES = {
    "cosine": Cosine(0.1),
    "warm-up": WarmUp(7, Cosine()),
    "step decay": StepDecay((0.3, 0.7), 0.3),
    "warm-up, stable, decay": WarmUpStableDecay(0.2, 0.4),
}
SPHERE = replace(PARITY, methods=(OnSphere(),), optimizer=SGD(0.05))
TANGENT = replace(PARITY, methods=(OnSphere(radius=0.5, tangent=True),), optimizer=SGD(0.3))
COMMITTEE = replace(
    INDEX,
    task=MultiIndex(6, ProductOf(Tanh(), 2), noise=0.1),
    model=MLP(5, activation=Activation.ERF, bias=False, init="committee"),
    optimizer=SGD(0.5),
    methods=(OnSphere(), LayerScale(rate={Role.READOUT: 0})),
)
LINEARISED = replace(PARITY, methods=(Linearised(),))
SPLIT = replace(
    PARITY,
    task=Split(ModularArithmetic(7, base=7), 0.5),
    model=MLP(12, embedding=Embedding(4)),
    loss=CrossEntropy(),
    optimizer=SGD(0.5),
    batch=FullBatch(),
)
LABELS = replace(
    ADAM, task=RunningSum(), model=Transformer(8, 1, heads=2, causal=True, readout="tokens"), loss=CrossEntropy()
)
UNEVEN = replace(PARITY, task=Uneven(8, 2))
BATCH_NORM = replace(PARITY, model=BatchNormed(), optimizer=SGD(0.05))
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
    "momentum": MOMENTUM,
    "nesterov": NESTEROV,
    "coupled decay": COUPLED,
    "decoupled decay": DECOUPLED,
    "coupled decay of adam": ADAM_COUPLED,
    "adafactor": replace(PARITY, optimizer=Adafactor(0.05)),
    **{name: replace(PARITY, optimizer=SGD(0.1, schedule=schedule)) for name, schedule in SCHEDULES.items()},
    "cosine of adam": replace(PARITY, optimizer=AdamW(0.01, weight_decay=0.1, schedule=Cosine())),
    "cosine in a deep network": replace(PARITY, model=MLP(12, depth=3), optimizer=SGD(0.1, schedule=Cosine())),
    "cosine on the population": replace(PARITY, batch=FullBatch(), optimizer=SGD(0.1, schedule=Cosine())),
    "float64": replace(PARITY, precision="float64"),
    "filter": replace(PARITY, methods=(GradientFilter(decay=0.8, strength=1.0),), optimizer=SGD(0.05)),
    "window": replace(PARITY, methods=(GradientFilter("window", window=5, strength=1.0),), optimizer=SGD(0.05)),
    "sphere": SPHERE,
    "tangent": TANGENT,
    "committee": COMMITTEE,
    "spherical committee": replace(COMMITTEE, methods=(OnSphere(tangent=True), LayerScale(rate={Role.READOUT: 0.04}))),
    "ball": replace(PARITY, methods=(InBall((Role.INPUT, Role.READOUT), radius=0.4),)),
    "loss by phase": replace(PHASES, methods=(PhaseLoss((Correlation(), None, Hinge())),)),
    "linearised": LINEARISED,
    "split": SPLIT,
    "fixed embedding": replace(
        SPLIT, model=MLP(12, embedding=Embedding(4, fixed=True)), optimizer=AdamW(0.02), plan=Fixed(20), batch=Batch(8)
    ),
    "noisy rows": replace(PARITY, task=Noisy(), plan=Fixed(24)),
    "labels of tokens": LABELS,
    "labels of tokens in float64": replace(LABELS, precision="float64"),
    "scores of an MLP": replace(LABELS, model=MLP(12, embedding=Embedding(3)), optimizer=SGD(0.3)),
    "attention only": replace(
        LABELS, task=DecisionList.cyclic(7, 4, (2, 1, 0), 3), model=AttentionOnly(value_std=0.1), optimizer=SGD(5.0)
    ),
    "threshold filter": replace(
        PARITY,
        task=LocalSignal(20, 3, noise=0.7, num_test=50),
        model=ThresholdFilter(0.3),
        loss=Logistic(),
        methods=(LayerScale(rate={Role.BIAS: 0.2}),),
    ),
    "hidden tokens": replace(LABELS, task=RunningSum(hidden=2)),
    "weighted samples": UNEVEN,
    "batch norm": BATCH_NORM,
}
every_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
# Those that stand for the others where a test takes long.
OFTEN = ("parity", "adam", "phases", "gd", "auto")


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
    return outcome.states[end].weights


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


def assert_same_state(one, two):
    """All that changes in training, bit for bit, but for the seconds it took."""
    one, two = ({k: v for k, v in state.flat().items() if k != "counters/seconds"} for state in (one, two))
    assert_same_weights(one, two)


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
    x = data.x if run.task.signature.symbols else data.x.astype(np.float64)
    return x, data.y.astype(np.float64)


SLOPES = {
    "mse": lambda f, y: 2 * (f - y),
    "hinge": lambda f, y: np.where(y * f < 1, -y, 0.0),
    "logistic": lambda f, y: -y / (1 + np.exp(y * f)),
    "correlation": lambda f, y: -y,
}


def naive_descent(run, batch=naive_batch, start=None):
    """Gradient descent on a two-layer ReLU network with biases, the gradients written out by hand."""
    start = start or run.fresh_weights()
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
        for name, value in run.fresh_weights().items()
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
    weights = dict(run.fresh_weights())
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
        assert_same_weights(outcome.states[Step(40)].weights, weights, rtol=1e-3, atol=1e-5)
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
    module = run.model.module(run.task.signature).double()
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


def naive_gradients(run, weights, step, weigh=None):
    """Gradients of the mean squared error of a two-layer ReLU network at these weights, by autograd in float64."""
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    x, y = (torch.from_numpy(a) for a in naive_batch(run, step))
    h = torch.relu(x @ tensors["layers.0.weight"].T + tensors["layers.0.bias"])
    errors = ((h @ tensors["layers.1.weight"].T + tensors["layers.1.bias"])[:, 0] - y) ** 2
    share = torch.ones(len(y)) if weigh is None else weigh(x)
    ((errors * share).sum() / share.sum()).backward()
    return {name: tensor.grad.numpy() for name, tensor in tensors.items()}


def naive_walk(run, update, start=lambda weights: weights, **options):
    """Twelve steps of `update(weights, gradients, step)`, in float64."""
    weights = start({name: value.astype(np.float64) for name, value in run.fresh_weights().items()})
    for step in range(12):
        weights = update(weights, naive_gradients(run, weights, step, **options), step)
    return weights


@every_engine
@pytest.mark.parametrize("run", [MOMENTUM, NESTEROV, COUPLED, DECOUPLED], ids=lambda run: str(run.optimizer)[:60])
def test_momentum_and_both_decays_agree_with_their_formulas(engine, run):
    o, velocity = run.optimizer, {}

    def update(weights, gradients, step):
        out = {}
        for name, w in weights.items():
            g = gradients[name]
            if o.decay == "coupled":
                g = g + o.weight_decay * w
            else:
                w = w * (1 - o.lr * o.weight_decay)
            velocity[name] = o.momentum * velocity.get(name, 0.0) + g
            out[name] = w - o.lr * (g + o.momentum * velocity[name] if o.nesterov else velocity[name])
        return out

    run = replace(run, budget=Budget(12))
    assert_same_weights(final_weights(engine, run), naive_walk(run, update), rtol=1e-4, atol=1e-6)


@every_engine
def test_a_coupled_decay_of_adam_agrees_with_its_formula_and_is_not_the_decoupled_one(engine):
    run = replace(ADAM_COUPLED, budget=Budget(12))
    o, first, second = run.optimizer, {}, {}

    def update(weights, gradients, step):
        out = {}
        for name, w in weights.items():
            g = gradients[name] + o.weight_decay * w
            first[name] = o.beta1 * first.get(name, 0.0) + (1 - o.beta1) * g
            second[name] = o.beta2 * second.get(name, 0.0) + (1 - o.beta2) * g**2
            m, v = first[name] / (1 - o.beta1 ** (step + 1)), second[name] / (1 - o.beta2 ** (step + 1))
            out[name] = w - o.lr * m / (np.sqrt(v) + o.eps)
        return out

    mine = final_weights(engine, run)
    assert_same_weights(mine, naive_walk(run, update), rtol=1e-3, atol=1e-5)
    decoupled = final_weights(engine, replace(run, optimizer=replace(o, decay="decoupled")))
    assert not np.allclose(mine["layers.0.weight"], decoupled["layers.0.weight"], rtol=1e-3, atol=1e-5)


FACTORS = {  # of twelve steps
    "cosine": (Cosine(0.1), [0.1 + 0.45 * (1 + np.cos(np.pi * t / 12)) for t in range(12)]),
    "warm-up": (WarmUp(4), [0.25, 0.5, 0.75, *[1.0] * 9]),
    "warm-up and cosine": (WarmUp(2, Cosine()), [0.5, 1.0, *((1 + np.cos(np.pi * t / 10)) / 2 for t in range(10))]),
    "step decay": (StepDecay((0.25, 0.5), 0.1), [1.0] * 3 + [0.1] * 3 + [0.01] * 6),
    "warm-up, stable, decay": (WarmUpStableDecay(0.25, 1 / 3, 0.2), [1 / 3, 2 / 3, *[1.0] * 7, 0.8, 0.6, 0.4]),
}


@every_engine
@pytest.mark.parametrize(("schedule", "factors"), FACTORS.values(), ids=FACTORS)
def test_a_schedule_multiplies_the_rate_of_every_step(engine, schedule, factors):
    run = replace(PARITY, optimizer=SGD(0.2, schedule=schedule), budget=Budget(12))

    def update(weights, gradients, step):
        return {name: w - 0.2 * factors[step] * gradients[name] for name, w in weights.items()}

    assert_same_weights(final_weights(engine, run), naive_walk(run, update), rtol=1e-4, atol=1e-6)


@every_engine
@pytest.mark.parametrize("tangent", [True, False], ids=["tangent", "projected"])
def test_descent_on_the_sphere_agrees_with_its_formula(engine, tangent):
    method = OnSphere(radius=0.5, tangent=tangent)
    run, name = replace(PARITY, methods=(method,), optimizer=SGD(0.3), budget=Budget(12)), "layers.0.weight"

    def onto(weights):
        w = weights[name]
        return weights | {name: 0.5 * w / np.linalg.norm(w, axis=1, keepdims=True)}

    def update(weights, gradients, step):
        w, g = weights[name], gradients[name]
        if tangent:
            units = w / np.linalg.norm(w, axis=1, keepdims=True)
            gradients = gradients | {name: g - (g * units).sum(axis=1, keepdims=True) * units}
        return onto({n: w - 0.3 * gradients[n] for n, w in weights.items()})

    mine = final_weights(engine, run)
    assert_same_weights(mine, naive_walk(run, update, start=onto), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(mine[name], axis=1), 0.5, rtol=1e-6)


@every_engine
def test_rows_in_a_ball_are_cut_to_its_radius_and_shorter_ones_stay(engine):
    run = replace(PARITY, methods=(InBall(radius=0.55),), budget=Budget(12))

    def inside(weights):
        w = weights["layers.0.weight"]
        return weights | {"layers.0.weight": w * np.minimum(1, 0.55 / np.linalg.norm(w, axis=1, keepdims=True))}

    def update(weights, gradients, step):
        return inside({name: w - 0.1 * gradients[name] for name, w in weights.items()})

    mine = final_weights(engine, run)
    assert_same_weights(mine, naive_walk(run, update, start=inside), rtol=1e-4, atol=1e-6)
    norms = np.linalg.norm(mine["layers.0.weight"], axis=1)
    assert (norms < 0.54).any()
    assert (norms > 0.5499).any()
    assert norms.max() < 0.5501


@every_engine
@pytest.mark.parametrize("kind", ["ema", "window"])
def test_filtered_gradients_agree_with_their_formula(engine, kind):
    method = GradientFilter(kind, decay=0.8, window=3, strength=1.5)
    run, past = replace(PARITY, methods=(method,), optimizer=SGD(0.05), budget=Budget(12)), []

    def update(weights, gradients, step):
        past.append(gradients)
        out = {}
        for name, w in weights.items():
            mean = past[0][name]
            for seen in past[1:]:
                mean = 0.8 * mean + 0.2 * seen[name]
            if kind == "window":
                mean = np.mean([seen[name] for seen in past[-3:]], axis=0) if len(past) >= 3 else 0.0
            out[name] = w - 0.05 * (gradients[name] + 1.5 * mean)
        return out

    assert_same_weights(final_weights(engine, run), naive_walk(run, update), rtol=1e-4, atol=1e-6)


@every_engine
def test_a_linearised_network_is_trained_by_its_jacobian_at_the_start(engine):
    run = replace(LINEARISED, budget=Budget(12))
    mine = final_weights(engine, run)
    module = run.model.module(run.task.signature).double()
    start = {name: torch.from_numpy(value).double() for name, value in run.fresh_weights().items()}

    def forward(weights, x):
        return torch.func.functional_call(module, weights, (x,))

    change = torch.zeros(sum(value.numel() for value in start.values()), dtype=torch.float64)
    for step in range(12):
        x, y = (torch.from_numpy(a) for a in naive_batch(run, step))
        jacobian = torch.cat([j.flatten(1) for j in torch.func.jacrev(forward)(start, x).values()], dim=1)
        residual = forward(start, x).detach() + jacobian @ change - y
        change = change - run.optimizer.lr * 2 * jacobian.T @ residual / len(y)
    pieces = torch.split(change, [value.numel() for value in start.values()])
    expected = {name: (w + d.view_as(w)).numpy() for (name, w), d in zip(start.items(), pieces, strict=True)}
    assert_same_weights(mine, expected, rtol=1e-4, atol=1e-6)
    assert not np.allclose(mine["layers.0.weight"], final_weights(engine, replace(run, methods=()))["layers.0.weight"])


@every_engine
def test_the_records_of_a_linearised_network_are_those_of_the_expansion(engine):
    run = replace(LINEARISED, task=replace(LINEARISED.task, num_test=256), budget=Budget(12))
    (outcome,) = train(engine, Job(run, keep=(Step(12),)))
    module, test = run.model.module(run.task.signature), run.task.sample(run.seed, np.arange(256), Stream.EVALUATION)
    start = {name: torch.from_numpy(value) for name, value in run.fresh_weights().items()}
    change = {n: torch.from_numpy(w) - start[n] for n, w in outcome.states[Step(12)].weights.items()}
    forward = lambda weights: torch.func.functional_call(module, weights, (torch.from_numpy(test.x),))  # noqa: E731
    jacobian = torch.func.jacrev(forward)(start)
    expansion = forward(start) + sum((jacobian[n] * change[n]).flatten(1).sum(1) for n in start)
    expected = (expansion.detach().numpy() - test.y) ** 2
    np.testing.assert_allclose(outcome.trace["test_loss"][-1], expected.mean(), rtol=1e-4)


@every_engine
def test_a_loss_by_phase_is_what_its_phase_minimises_and_records_are_of_the_run(engine):
    plan = Phases((Phase(size=16, steps=5), Phase()))
    run = replace(PARITY, plan=plan, methods=(PhaseLoss((Correlation(),)),), budget=Budget(12, 1))
    first = naive_descent(replace(run, plan=Fixed(16), methods=(), loss=Correlation(), budget=Budget(5)))

    def fresh(run, step):
        data = run.task.sample(run.seed, 16 + step * 8 + np.arange(8))
        return data.x.astype(np.float64), data.y.astype(np.float64)

    expected = naive_descent(replace(run, plan=Online(), methods=(), budget=Budget(7)), fresh, first)
    (outcome,) = train(engine, Job(run, keep=(Step(12),)))
    assert_same_weights(outcome.states[Step(12)].weights, expected, rtol=1e-4, atol=1e-6)
    assert (outcome.trace["test_loss"] > 0).all()
    assert outcome.trace["test_loss"][0] == train(engine, replace(run, methods=()))[0].trace["test_loss"][0]


@every_engine
def test_weighted_samples_count_in_gradients_and_records_by_their_weight(engine):
    run = replace(UNEVEN, budget=Budget(12))

    def update(weights, gradients, step):
        return {name: w - 0.1 * gradients[name] for name, w in weights.items()}

    expected = naive_walk(run, update, weigh=lambda x: 2 + x[:, 0])
    (outcome,) = train(engine, Job(run, keep=(Step(12),)))
    assert_same_weights(outcome.states[Step(12)].weights, expected, rtol=1e-4, atol=1e-6)
    test = run.task.sample(run.seed, np.arange(4096), Stream.EVALUATION)
    h = np.maximum(test.x @ expected["layers.0.weight"].T + expected["layers.0.bias"], 0)
    f = (h @ expected["layers.1.weight"].T + expected["layers.1.bias"])[:, 0]
    weighted = {"test_loss": (f - test.y) ** 2, "test_accuracy": f * test.y > 0}
    for name, values in weighted.items():
        np.testing.assert_allclose(outcome.trace[name][-1], np.average(values, weights=test.weight), rtol=1e-3)


@every_engine
def test_a_hidden_token_has_no_part_in_training(engine):
    run = RUNS["hidden tokens"]

    @dataclass(frozen=True)
    class Garbled(RunningSum):
        def sample(self, seed, ids, stream=Stream.DATA):
            data = super().sample(seed, ids, stream)
            return replace(data, y=np.where(data.weight > 0, data.y, 2 - data.y))

    garbled = replace(run, task=Garbled(hidden=2))
    assert_same_weights(final_weights(engine, run), final_weights(engine, garbled))
    assert not np.array_equal(
        final_weights(engine, run)["readout.weight"], final_weights(engine, LABELS)["readout.weight"]
    )


@every_engine
def test_labels_of_tokens_agree_with_plain_torch_in_float64(engine):
    run = replace(LABELS, optimizer=SGD(0.3), budget=Budget(12))
    (outcome,) = train(engine, Job(run, keep=(Step(12),)))
    module = run.model.module(run.task.signature).double()
    module.load_state_dict({k: torch.from_numpy(v).double() for k, v in run.fresh_weights().items()})
    descent = torch.optim.SGD(module.parameters(), lr=0.3)
    for step in range(12):
        x, y = (torch.from_numpy(a) for a in naive_batch(run, step))
        descent.zero_grad()
        torch.nn.functional.cross_entropy(module(x).flatten(0, 1), y.long().flatten()).backward()
        descent.step()
    expected = {name: value.detach().numpy() for name, value in module.named_parameters()}
    assert_same_weights(outcome.states[Step(12)].weights, expected, rtol=1e-3, atol=1e-5)
    test = run.task.sample(run.seed, np.arange(64), Stream.EVALUATION)
    right = module(torch.from_numpy(test.x)).argmax(-1).numpy() == test.y
    assert outcome.trace["test_accuracy"][-1] == pytest.approx(right.mean(), abs=1.01 / right.size)


@every_engine
def test_batch_norm_trains_on_its_batch_and_is_evaluated_by_its_running_means(engine):
    run = replace(BATCH_NORM, budget=Budget(12, 5))
    (outcome,) = train(engine, Job(run, keep=(Step(12),)))
    module = run.model.module(run.task.signature).double()
    weights = {k: torch.from_numpy(v).double() for k, v in run.fresh_weights().items()}
    module.load_state_dict({**module.state_dict(), **weights})
    descent = torch.optim.SGD(module.parameters(), lr=0.05)
    for step in range(12):
        x, y = (torch.from_numpy(a) for a in naive_batch(run, step))
        descent.zero_grad()
        ((module(x) - y) ** 2).mean().backward()
        descent.step()
    state = outcome.states[Step(12)]
    expected = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    assert_same_weights({**state.weights, **state.buffers}, expected, rtol=1e-4, atol=1e-6)
    module.eval()
    test = run.task.sample(run.seed, np.arange(4096), Stream.EVALUATION)
    loss = ((module(torch.from_numpy(test.x).double()) - torch.from_numpy(test.y)) ** 2).mean().item()
    np.testing.assert_allclose(outcome.trace["test_loss"][-1], loss, rtol=1e-4)


@every_engine
def test_full_batches_of_a_split_agree_with_plain_torch_in_float64(engine):
    run = replace(SPLIT, budget=Budget(12))
    mine = final_weights(engine, run)
    module = run.model.module(run.task.signature).double()
    module.load_state_dict({k: torch.from_numpy(v).double() for k, v in run.fresh_weights().items()})
    descent = torch.optim.SGD(module.parameters(), lr=0.5)
    x, y = (torch.from_numpy(a) for a in naive_batch(replace(run, plan=Fixed(run.task.num_train)), 0))
    for _ in range(12):
        descent.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y.long()).backward()
        descent.step()
    expected = {name: value.detach().numpy() for name, value in module.named_parameters()}
    assert_same_weights(mine, expected, rtol=1e-4, atol=1e-6)


@every_engine
def test_float64_agrees_with_a_naive_descent_to_its_own_rounding(engine):
    run = replace(PARITY, precision="float64", budget=Budget(12))
    assert_same_weights(final_weights(engine, run), naive_descent(run), rtol=1e-11, atol=1e-13)


@every_engine
@pytest.mark.parametrize("name", ["parity", "labels of tokens", "split"])
def test_one_precision_does_not_touch_the_other(engine, name):
    single = replace(RUNS[name], budget=Budget(8, 4))
    double = replace(single, precision="float64")
    before = final_weights(engine, single)
    mine, specified = final_weights(engine, double), final_weights(loop.Loop(), double)
    assert_same_weights(final_weights(engine, single), before)
    assert_same_weights(mine, specified, rtol=1e-7, atol=1e-9)
    assert {value.dtype for value in mine.values()} == {np.dtype(np.float64)}
    assert {value.dtype for value in before.values()} == {np.dtype(np.float32)}


@every_engine
@pytest.mark.parametrize(
    "run", [PARITY, PHASES, TWO_SET, BY_ROLE, INDEX], ids=["online", "phases", "two sets", "by role", "index"]
)
def test_fresh_samples_go_on_after_those_of_the_runs_before(engine, run):
    (plain,) = train(engine, run)
    start = lower(run).fresh()
    (same,) = train(engine, Job(run, start=replace(start, place={"fresh": np.asarray(0)})))
    assert_same_trace(same.trace, plain.trace)
    later = Job(run, start=replace(start, place={"fresh": np.asarray(1000)}), keep=(Step(40),))
    (mine,), (specified,) = train(engine, later), train(loop.Loop(), later)
    assert not np.array_equal(mine.trace["train_loss"], plain.trace["train_loss"])
    assert_same_weights(mine.states[Step(40)].weights, specified.states[Step(40)].weights, rtol=1e-3, atol=1e-5)
    assert mine.states[Step(40)].place == specified.states[Step(40)].place
    assert mine.states[Step(40)].counters["drawn"] == specified.states[Step(40)].counters["drawn"] >= 1000


@every_engine
def test_a_run_that_begins_later_in_its_samples_agrees_with_a_naive_one(engine):
    run = replace(PARITY, budget=Budget(12))
    start = replace(lower(run).fresh(), place={"fresh": np.asarray(1000)})
    (outcome,) = train(engine, Job(run, start=start, keep=(Step(12),)))

    def batch(run, step):
        data = run.task.sample(run.seed, 1000 + step * 8 + np.arange(8))
        return data.x.astype(np.float64), data.y.astype(np.float64)

    assert_same_weights(outcome.states[Step(12)].weights, naive_descent(run, batch), rtol=1e-4, atol=1e-6)
    assert int(outcome.states[Step(12)].counters["drawn"]) == 1000 + 12 * 8


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


@every_engine
@pytest.mark.parametrize("ties", [0.5, 0, 0.25])
def test_a_prediction_of_zero_counts_what_the_task_says(engine, ties):
    silent = LayerScale(init={Role.READOUT: 0, Role.BIAS: 0})
    run = replace(PARITY, task=Parity(8, 2, ties=ties), methods=(silent,), budget=Budget(1))
    for other in (run, replace(run, model=MLP(8, depth=3)), replace(run, batch=FullBatch())):
        if engine.supports(other) is None:
            (outcome,) = train(engine, other)
            assert outcome.trace["test_accuracy"][0] == outcome.trace["train_accuracy"][0] == ties


@fast_engine
@every_run
def test_an_engine_agrees_with_the_loop_on_every_record(engine, run):
    (mine,), (specified,) = train(engine, run), train(loop.Loop(), run)
    assert mine.trace.values.keys() == specified.trace.values.keys()
    exact = run.precision == "float64"
    for name, curve in specified.trace.values.items():
        if name == "norm_bias" and isinstance(run.model, Transformer):
            continue  # that of keys has gradients of rounding alone, of which AdamW makes whole steps
        slack = 2 / run.task.num_test if name == "test_accuracy" else 1e-8 if exact else 1e-5
        np.testing.assert_allclose(mine.trace[name], curve, rtol=1e-7 if exact else 1e-3, atol=slack, err_msg=name)


# --- determinism and grouping -------------------------------------------------------------------------------------


@every_engine
@every_run
def test_training_twice_gives_the_same_trace(engine, run):
    (one,), (two,) = train(engine, run), train(engine, run)
    assert_same_trace(one.trace, two.trace)
    assert one.trace.status is Status.FINISHED
    assert (one.trace.cell, one.trace.seed) == (run.cell, run.seed)


@fast_engine
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_does_not_depend_on_its_neighbours_or_their_order(engine, every):
    runs = [run for run in RUNS.values() if engine.supports(run) is None][::every]
    runs += [PARITY.at(0), PARITY.at(1), ADAM.at(9)]
    alone = [train(engine, run)[0] for run in runs]
    together = train(engine, *runs)
    reverse = train(engine, *reversed(runs))[::-1]
    assert [outcome.run for outcome in together] == runs
    for one, two, three in zip(alone, together, reverse, strict=True):
        assert_same_trace(one.trace, two.trace)
        assert_same_trace(one.trace, three.trace)


@fast_engine
@every_run
def test_a_run_is_the_same_alone_and_in_a_stack_with_other_seeds(engine, run):
    jobs = [Job(run.at(seed), keep=(Step(40),)) for seed in (11, run.seed, 12)]
    (alone,) = train(engine, jobs[1])
    # The ensemble traces every size of a stack anew, which takes longer than the run, so it is asked for three seldom.
    three = [jobs] if engine.name == "fused" or run in [RUNS[name] for name in OFTEN] else []
    for order in (jobs[:2], jobs[1:], *three):
        (among,) = (outcome for outcome in train(engine, *order) if outcome.run == run)
        assert_same_trace(among.trace, alone.trace)
        assert_same_state(among.states[Step(40)], alone.states[Step(40)])


@every_engine
def test_members_with_momenta_and_decays_of_their_own_may_be_interrupted_apart_and_go_on_together(engine, tmp_path):
    runs = [PARITY, MOMENTUM, NESTEROV, COUPLED, DECOUPLED]
    runs = [run for run in runs if engine.supports(run) is None]
    alone = [train(engine, Job(run, keep=(Step(40),)))[0] for run in runs]
    for order in (1, -1):
        jobs = [Job(r, keep=(Step(40),), checkpoint=tmp_path / f"{order} {i}") for i, r in enumerate(runs)][::order]
        for job in jobs:
            with pytest.raises(Interrupted):
                train(engine, job, watch=lambda index, step: step == 20)
        for one, two in zip(train(engine, *jobs), alone[::order], strict=True):
            assert_same_trace(one.trace, two.trace)
            assert_same_weights(one.states[Step(40)].weights, two.states[Step(40)].weights)


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
@pytest.mark.parametrize("plan", [Online(), ByRole(Fixed(20), (Role.READOUT,))], ids=["online", "by role"])
def test_how_often_a_module_with_two_modes_is_evaluated_does_not_change_it(engine, plan):
    seldom, often = (replace(BATCH_NORM, plan=plan, budget=Budget(14, every)) for every in (14, 1))
    one, two = (train(engine, Job(run, keep=(Step(14),)))[0].states[Step(14)] for run in (seldom, often))
    assert_same_weights(one.weights, two.weights)
    assert_same_weights(one.buffers, two.buffers)


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
    assert mini.flops.tolist() == [n * flops_per_sample(PARITY.parameters) for n in mini.samples]


@every_engine
def test_weights_are_kept_at_the_moments_asked_for(engine):
    moments = (Step(0), Step(7), Step(40), Reaches("test_loss", 1e9), Reaches("test_loss", -1.0))
    (kept,) = train(engine, Job(PARITY, keep=moments))
    assert set(kept.states) == set(moments)
    assert kept.states[moments[4]] is None
    assert_same_weights(kept.states[Step(0)].weights, PARITY.fresh_weights())
    assert_same_weights(kept.states[moments[3]].weights, PARITY.fresh_weights())
    assert_same_weights(kept.states[Step(7)].weights, final_weights(engine, replace(PARITY, budget=Budget(7))))
    assert_same_trace(kept.trace, train(engine, PARITY)[0].trace)


@every_engine
def test_a_metric_is_reached_at_the_first_record_at_or_past_it(engine):
    (outcome,) = train(engine, GD)
    steps, losses = outcome.trace.steps, outcome.trace["train_loss"]
    target = float(losses[2])
    first = int(steps[np.flatnonzero(losses <= target)[0]])
    at = Reaches("train_loss", target)
    (kept,) = train(engine, Job(GD, keep=(at, Step(first))))
    assert_same_state(kept.states[at], kept.states[Step(first)])


@every_engine
def test_the_watch_hears_of_every_record_of_every_job(engine):
    heard = []
    train(engine, PARITY, PHASES, watch=lambda index, step: heard.append((index, step)) or False)
    assert sorted(heard) == [(index, step) for index in (0, 1) for step in (0, 10, 20, 30, 40)]


@every_engine
def test_a_job_starts_from_the_weights_it_is_given(engine):
    half = replace(GD, budget=Budget(20, 10))
    start = State(final_weights(engine, half))
    (outcome,) = train(engine, Job(half, start=start, keep=(Step(20),)))
    assert_same_weights(outcome.states[Step(20)].weights, final_weights(engine, GD))


# --- interruption -------------------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize(
    ("run", "at"),
    [
        pytest.param(run, at, id=f"{name} at {at}")
        for name, run in RUNS.items()
        for at in ((0, 10, 20, 30) if name in OFTEN else (20,))
    ],
)
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
    assert resumed.states[moments[4]] is whole.states[moments[4]] is None
    for moment in moments[:4]:
        assert_same_state(resumed.states[moment], whole.states[moment])


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
    assert outcome.states == {Step(40): None}


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
@pytest.mark.parametrize("run", [RUNS[name] for name in ("parity", "index", "adam", "gd", "by_role", "encoder")])
def test_layers_scaled_by_one_are_the_untouched_run(engine, run):
    ones = LayerScale(init=dict.fromkeys(Role, 1), rate=dict.fromkeys(Role, 1))
    untouched = final_weights(engine, run)
    for neutral in (ones, LayerScale()):
        scaled = replace(run, methods=(*run.methods, neutral))
        assert_same_weights(final_weights(engine, scaled), untouched)


@every_engine
def test_a_scale_multiplies_the_initial_weights_of_its_role_only(engine):
    run = replace(PARITY, methods=(LayerScale(init={Role.READOUT: 3}), LayerScale(init={Role.READOUT: 0.5})))
    (outcome,) = train(engine, Job(run, keep=(Step(0),)))
    expected = PARITY.fresh_weights()
    expected["layers.1.weight"] = expected["layers.1.weight"] * np.float32(1.5)
    assert_same_weights(outcome.states[Step(0)].weights, expected)


@every_engine
@pytest.mark.parametrize("optimizer", [SGD, AdamW])
@pytest.mark.parametrize("role", [Role.INPUT, Role.READOUT, Role.BIAS])
def test_a_rate_of_zero_freezes_its_role_and_no_other(engine, optimizer, role):
    run = replace(PARITY, optimizer=optimizer(0.05), methods=(LayerScale(rate={role: 0}),))
    start, end = run.fresh_weights(), final_weights(engine, run)
    for parameter in run.parameters:
        assert np.array_equal(start[parameter.name], end[parameter.name]) == (parameter.role is role)


@every_engine
@pytest.mark.parametrize("optimizer", [SGD, AdamW])
def test_rates_scaled_in_all_roles_are_another_rate(engine, optimizer):
    scaled = replace(PARITY, optimizer=optimizer(0.125), methods=(LayerScale(rate=dict.fromkeys(Role, 0.25)),))
    plain = replace(PARITY, optimizer=optimizer(0.03125))
    assert_same_weights(final_weights(engine, scaled), final_weights(engine, plain))


@every_engine
@pytest.mark.parametrize(
    "optimizer",
    [
        SGD(0.1, momentum=0.0, weight_decay=0.0, decay="decoupled"),
        SGD(0.1, schedule=WarmUp(0)),
        SGD(0.1, schedule=StepDecay((0.5,), 1.0)),
    ],
    ids=["no momentum", "no warm-up", "a decay by one"],
)
def test_the_neutral_element_of_an_option_is_the_plain_optimizer(engine, optimizer):
    assert_same_weights(final_weights(engine, replace(PARITY, optimizer=optimizer)), final_weights(engine, PARITY))


@every_engine
def test_a_fixed_table_keeps_its_values_and_everything_else_learns(engine):
    run = RUNS["fixed embedding"]
    start, end = run.fresh_weights(), final_weights(engine, run)
    assert {n for n, value in start.items() if np.array_equal(value, end[n])} == {"embedding.weight"}


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
    run = replace(GD, task=replace(GD.task, num_test=16), budget=Budget(5))
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
