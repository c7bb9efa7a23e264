"""What an engine must do that trains on few rows of many numbers: all that the loop does, to 1e-10 in float64."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.trace import Status
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines import Interrupted, Job, choose
from headstart.engines.loop import Loop
from headstart.engines.span import Span
from headstart.engines.span.rows import num_rows
from headstart.lab import open_store
from headstart.lab.runner import execute
from headstart.lab.workers import workers
from headstart.losses import MSE, Correlation, CrossEntropy, Exponential, Logistic
from headstart.measures import Distance
from headstart.methods import GradientFilter, LayerScale, OnSphere, PhaseLoss, RandomLabels, TransferFirstLayer
from headstart.models import MLP, Embedding, Transformer
from headstart.optimizers import SGD, AdamW, Cosine
from headstart.plans import AutoPhases, ByRole, Fixed, Online, Phase, Phases, TwoSet
from headstart.run import Carry, From, Reaches, Run, Step
from headstart.tasks import ModularArithmetic, Parity, Split, XorClusters

# Rows of a test are shorter than those that are a gain.
ENGINE = Span(least_inputs=2)
TASK = XorClusters(96, 0.3, num_test=40)


@dataclass(frozen=True)
class Uneven(XorClusters):
    """Clusters whose samples with x_1 = 1 count three times as much as the others."""

    def sample(self, seed, ids, stream=2):
        data = super().sample(seed, ids, stream)
        return replace(data, weight=2 + data.x[:, 0])


GD = Run(
    TASK,
    MLP(7, bias=False),
    Fixed(20),
    Exponential(),
    SGD(0.1),
    batch=FullBatch(),
    budget=Budget(24, 8),
    precision="float64",
    seed=3,
)
MINI = replace(GD, batch=Batch(6))
RUNS = {
    "descent": GD,
    "mini-batches": MINI,
    "mini-batches without replacement": replace(MINI, plan=Fixed(20, replacement=False)),
    "momentum": replace(GD, optimizer=SGD(0.05, 0.9)),
    "momentum on mini-batches": replace(MINI, optimizer=SGD(0.05, 0.9)),
    "coupled decay": replace(MINI, optimizer=SGD(0.1, weight_decay=0.3)),
    "coupled decay and momentum": replace(MINI, optimizer=SGD(0.05, 0.9, weight_decay=0.3)),
    "coupled decay and Nesterov": replace(MINI, optimizer=SGD(0.05, 0.9, nesterov=True, weight_decay=0.3)),
    "decoupled decay": replace(GD, optimizer=SGD(0.1, weight_decay=0.3, decay="decoupled")),
    "decoupled decay and momentum": replace(MINI, optimizer=SGD(0.05, 0.9, weight_decay=0.3, decay="decoupled")),
    "schedule": replace(GD, optimizer=SGD(0.1, weight_decay=0.3, schedule=Cosine())),
    "biases": replace(MINI, model=MLP(7)),
    "depth 3": replace(MINI, model=MLP(7, depth=3, activation="gelu", init="gaussian"), loss=Logistic()),
    "linear model": replace(GD, model=MLP(depth=1), loss=MSE()),
    "layers scaled": replace(
        MINI, methods=(LayerScale(init={Role.INPUT: 3.0}, rate={Role.INPUT: 0.5, Role.READOUT: 2.0}),)
    ),
    "frozen first layer": replace(
        GD, methods=(LayerScale(rate={Role.INPUT: 0}),), optimizer=SGD(0.05, 0.9, weight_decay=0.3)
    ),
    "a map before the first layer": replace(MINI, model=MLP(7, bias=False, embedding=Embedding(3))),
    "a map of low rank": replace(GD, model=MLP(7, embedding=Embedding(5, rank=2)), optimizer=SGD(0.05, 0.9)),
    "a fixed map": replace(GD, model=MLP(7, embedding=Embedding(3, fixed=True))),
    "phases": replace(
        MINI,
        plan=Phases((Phase(size=4, steps=9), Phase(size=12))),
        methods=(PhaseLoss((Correlation(), None)), RandomLabels(phases=(1,))),
    ),
    "phases that end by a metric": replace(
        MINI, plan=AutoPhases(4, sizes=(6, 12), max_epochs=6), task=replace(TASK, dim=160)
    ),
    "weighted samples": replace(MINI, task=Uneven(96, 0.3, num_test=40)),
    "rows of a split": replace(
        GD, task=Split(Parity(12, 2), 3, test=30), plan=Online(), model=MLP(7), optimizer=SGD(0.2)
    ),
}
every_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
MOMENTS = (Step(0), Step(5), Step(24))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(*jobs, engine=ENGINE, **options):
    jobs = [job if isinstance(job, Job) else Job(job) for job in jobs]
    assert all(engine.supports(job.run) is None for job in jobs)
    return list(engine.train(jobs, **options))


def assert_close(one, two, **tolerance):
    """Traces and kept states agree, names and order included."""
    tolerance = tolerance or {"rtol": 1e-10, "atol": 1e-10}
    assert list(one.trace.values) == list(two.trace.values)
    for name in ("steps", "samples", "flops"):
        assert np.array_equal(getattr(one.trace, name), getattr(two.trace, name))
    for name, curve in one.trace.values.items():
        np.testing.assert_allclose(curve, two.trace[name], err_msg=name, **tolerance)
    assert one.states.keys() == two.states.keys()
    for at, state in one.states.items():
        arrays, others = ({k: v for k, v in s.flat().items() if k[:9] != "counters/"} for s in (state, two.states[at]))
        assert arrays.keys() == others.keys()
        for name, array in arrays.items():
            assert array.dtype == others[name].dtype
            np.testing.assert_allclose(array, others[name], err_msg=name, **tolerance)


def assert_same(one, two):
    assert_close(one, two, rtol=0, atol=0)


@every_run
def test_it_agrees_with_the_loop_in_every_record_weight_and_moment(run):
    job = Job(run, keep=MOMENTS)
    (mine,), (specified,) = train(job), train(job, engine=Loop())
    assert mine.trace.status is Status.FINISHED
    assert abs(mine.trace["train_loss"][-1] - mine.trace["train_loss"][0]) > 1e-3
    assert_close(mine, specified)


@pytest.mark.parametrize("name", ["descent", "coupled decay and Nesterov", "depth 3", "a map of low rank"])
def test_in_float32_it_agrees_with_the_loop_to_rounding(name):
    job = Job(replace(RUNS[name], precision="float32"), keep=MOMENTS)
    (mine,), (specified,) = train(job), train(job, engine=Loop())
    assert_close(mine, specified, rtol=1e-3, atol=2e-5)


@every_run
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(run, tmp_path):
    keep = (Step(5), Step(24), Reaches("test_loss", 1e9))
    (whole,) = train(Job(run, keep=keep))
    job = Job(run, keep=keep, checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(Interrupted):
        train(job, watch=lambda index, step: step == 16)
    heard = []
    (resumed,) = train(job, watch=lambda index, step: heard.append(step) or False)
    assert heard == [24]
    assert_same(resumed, whole)


def test_a_checkpoint_holds_coefficients_and_not_the_first_layer(tmp_path):
    wide = replace(GD, task=replace(TASK, dim=4000), optimizer=SGD(0.05, 0.9), precision="float32")
    job = Job(wide, checkpoint=tmp_path / "run.ckpt")
    with pytest.raises(Interrupted):
        train(job, watch=lambda index, step: step == 8)
    assert job.checkpoint.stat().st_size < 4 * 4000 < 4 * 4000 * 7


def test_a_run_that_starts_from_a_state_goes_on_from_it_and_resumes(tmp_path):
    for name in ("momentum on mini-batches", "a map of low rank"):
        run = replace(RUNS[name], optimizer=SGD(0.1))
        (half,) = train(Job(run, keep=(Step(24),)))
        job = Job(run, start=half.states[Step(24)], keep=MOMENTS)
        (mine,), (specified,) = train(job), train(job, engine=Loop())
        assert_close(mine, specified)
        for weight in run.fresh_weights():
            assert np.array_equal(mine.states[Step(0)].weights[weight], half.states[Step(24)].weights[weight])
        saving = replace(job, checkpoint=tmp_path / name)
        with pytest.raises(Interrupted):
            train(saving, watch=lambda index, step: step == 8)
        assert_same(train(saving)[0], mine)


def test_the_seconds_of_a_run_count_what_is_done_once_and_shared_rows_in_equal_parts(monkeypatch):
    clock = iter(range(0, 10_000, 1000))
    monkeypatch.setattr("headstart.engines.span.engine.time", SimpleNamespace(monotonic=lambda: next(clock)))
    for outcome in train(GD, replace(GD, optimizer=SGD(0.3))):
        assert 1500 <= outcome.trace.seconds < 1600


def test_a_weak_first_layer_goes_into_a_target_through_a_store(tmp_path):
    task = XorClusters(1024, num_test=30)
    weak = replace(GD, task=task, model=MLP(3, bias=False, init="gaussian"), precision="float32")
    via = From(weak, at=Step(16), via=TransferFirstLayer())
    target = replace(weak, model=MLP(8, bias=False, embedding=Embedding(3)), start=via)
    assert {choose(run).engine.name for run in (weak, target)} == {"span"}
    with open_store(tmp_path / "store.sqlite") as store, workers(1) as pool:
        execute([target], store, pool)
        (trace,) = store.cell_traces(target.cell, [target.seed])
        state = store.states.get(weak, Step(16))
    assert (trace.before.steps, trace.before.samples) == (16, 16 * 20)
    assert state.weights["layers.0.weight"].shape == (3, 1024)
    np.testing.assert_allclose(trace["norm_embedding"][0], np.linalg.norm(state.weights["layers.0.weight"]), rtol=1e-5)


def test_a_run_does_not_depend_on_its_neighbours_and_outcomes_keep_their_order():
    runs = [GD, MINI.at(5), replace(GD, optimizer=SGD(0.3)), GD.at(5), replace(GD, model=MLP(9)), RUNS["phases"]]
    together = train(*runs)
    assert [outcome.run for outcome in together] == runs
    for run, outcome in zip(runs, together, strict=True):
        assert_same(outcome, train(run)[0])


def test_a_diverging_run_ends_and_leaves_its_neighbours_alone():
    bad, good = train(replace(GD, optimizer=SGD(1e6)), GD)
    assert (bad.trace.status, good.trace.status) == (Status.DIVERGED, Status.FINISHED)
    assert len(bad.trace.steps) < 4


def test_measures_see_the_weights_written_out():
    job = Job(GD, measures=(Distance(),))
    (mine,), (specified,) = train(job), train(job, engine=Loop())
    for name, array in specified.measured[Distance()].items():
        np.testing.assert_allclose(mine.measured[Distance()][name], array, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["descent", "momentum on mini-batches", "phases", "frozen first layer"])
def test_how_often_a_run_records_does_not_change_it(name):
    often, seldom = (train(Job(replace(RUNS[name], budget=Budget(24, n)), keep=(Step(24),)))[0] for n in (1, 24))
    for weight, array in seldom.states[Step(24)].weights.items():
        assert np.array_equal(often.states[Step(24)].weights[weight], array)


def test_the_watch_hears_of_every_record_of_every_job():
    heard = []
    train(GD, MINI, watch=lambda index, step: heard.append((index, step)) or False)
    assert sorted(heard) == [(index, step) for index in (0, 1) for step in (0, 8, 16, 24)]


def test_the_threads_of_torch_are_left_alone():
    torch.set_num_threads(2)
    train(GD)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (replace(GD, optimizer=AdamW(0.1)), "AdamW leave the span of the rows; it takes SGD"),
        (replace(GD, plan=Online(), batch=Batch(8)), "fresh samples without end"),
        (replace(GD, plan=TwoSet(6, 0.5), batch=Batch(8)), "fresh samples without end"),
        (replace(GD, plan=Fixed(25)), "25 rows of 96 numbers are no gain: it takes rows of 100 numbers or more"),
        (replace(GD, model=Transformer(8, heads=2)), "not off Transformer"),
        (replace(GD, methods=(GradientFilter(),)), "it lacks transformed gradients"),
        (replace(GD, methods=(OnSphere(),)), "it lacks projected weights"),
        (replace(MINI, plan=ByRole(Fixed(20), (Role.READOUT,))), "it lacks plans by role"),
        (
            replace(RUNS["momentum"], start=From(RUNS["momentum"], carry=Carry(moments=True))),
            "it lacks moments carried over",
        ),
        (
            replace(
                GD,
                task=Split(ModularArithmetic(97, base=97), 20),
                model=MLP(7, embedding=Embedding(2)),
                loss=CrossEntropy(),
            ),
            "rows of real numbers, not on symbols",
        ),
    ],
)
def test_it_says_in_words_which_runs_it_does_not_take(run, reason):
    assert reason in ENGINE.supports(run)
    assert choose(run).engine.name != "span"


def test_it_trains_on_the_cpu_alone():
    assert ENGINE.supports(GD, "cuda") == "it trains on the cpu, not on cuda"
    with pytest.raises(HeadstartError, match="--device abacus"):
        train(GD, device="abacus")


def test_it_is_chosen_where_rows_are_many_times_longer_than_they_are_many():
    wide = replace(GD, task=XorClusters(2048))
    assert choose(wide).engine.name == "span"
    assert choose(GD).engine.name == "ensemble"
    assert choose(replace(wide, plan=Fixed(513))).engine.name == "ensemble"


@every_run
def test_it_estimates_time_and_memory(run):
    longer = replace(run, budget=Budget(10 * run.budget.steps, 8))
    assert 0 < ENGINE.seconds(run) < ENGINE.seconds(longer) < 10
    assert 0 < ENGINE.memory(run) < 1e8
    assert ENGINE.least_members(run) == 1
    assert num_rows(run) * 4 <= run.task.signature.num_inputs


def test_what_it_estimates_of_the_paper_is_seconds_and_not_the_memory_of_its_first_layer_and_rows_twice():
    paper = replace(GD, task=XorClusters(), plan=Fixed(400), model=MLP(2048, bias=False), budget=Budget(200))
    paper = replace(paper, precision="float32")
    assert 5 < Span().seconds(paper) < 60
    assert Span().memory(paper) < 1e9
