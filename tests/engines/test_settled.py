"""Runs that end once they are settled: until then they are what they were, and afterwards they stay there."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.core.encoding import encode
from headstart.core.errors import HeadstartError
from headstart.engines import Job
from headstart.engines.ensemble import Ensemble
from headstart.engines.fused import Fused
from headstart.engines.loop import Loop

BUDGET = hs.Budget(200, record_every=10)
ENDLESS = hs.Run(
    hs.Parity(6, 2, num_test=64), hs.MLP(32), hs.Fixed(64), hs.MSE(), hs.SGD(0.3), batch=hs.Batch(32), budget=BUDGET
)
ENDING = replace(ENDLESS, budget=replace(BUDGET, settled=hs.Settled(0.9)))
ENGINES = [Loop(), Ensemble(), Fused()]


def trained(engine, run, seeds=range(4)):
    return [outcome.trace for outcome in engine.train([Job(run.at(seed)) for seed in seeds])]


def settled_at(trace, num=3, value=0.9):
    """The record from which on nothing more was trained."""
    good = trace["test_accuracy"] >= value
    return next((i for i in range(num - 1, len(good)) if good[i - num + 1 : i + 1].all()), None)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_a_settled_run_is_the_same_until_it_ends_and_repeats_its_last_record(engine):
    ends = []
    for whole, short in zip(trained(engine, ENDLESS), trained(engine, ENDING), strict=True):
        end = settled_at(whole)
        ends.append(end)
        assert short.status is hs.Status.FINISHED
        for axis in ("steps", "samples", "flops"):
            np.testing.assert_array_equal(getattr(short, axis), getattr(whole, axis))
        for name, values in short.values.items():
            np.testing.assert_array_equal(values[: end + 1], whole[name][: end + 1])
            np.testing.assert_array_equal(values[end:], values[end])
    assert len(set(ends)) > 1, "members of a stack end one by one"
    assert max(ends) < len(whole.steps) - 1


def test_a_loss_settles_downwards():
    index = replace(ENDLESS, task=hs.SingleIndex(4, num_test=64), budget=replace(BUDGET, settled=hs.Settled(1e6)))
    (trace,) = trained(Loop(), index, [0])
    leading = trace[f"test_{index.task.metrics[0].name}"]
    assert len(set(leading[2:])) == 1
    assert len(set(leading[:3])) == 3


def test_what_it_cost_is_what_was_trained():
    (outcome,) = Loop().train([Job(ENDING)])
    end = settled_at(outcome.trace)
    assert outcome.cost.steps == outcome.trace.steps[end] < BUDGET.steps
    assert outcome.cost.samples == outcome.trace.samples[end]


def test_the_state_at_the_moment_that_settles_it_is_kept():
    moment = hs.Reaches("test_accuracy", 0.9)
    (outcome,) = Loop().train([Job(ENDING, keep=(moment,))])
    assert outcome.states[moment] is not None


def test_a_stopped_run_goes_on_and_settles_as_if_it_had_not_stopped(tmp_path):
    path = tmp_path / "checkpoint"
    (whole,) = trained(Ensemble(), ENDING, [1])
    step = int(whole.steps[settled_at(whole) - 1])
    with pytest.raises(hs.engines.engine.Interrupted):
        list(Ensemble().train([Job(ENDING.at(1), checkpoint=path)], watch=lambda _, at: at == step))
    assert path.exists()
    (resumed,) = [o.trace for o in Ensemble().train([Job(ENDING.at(1), checkpoint=path)])]
    for name, values in whole.values.items():
        np.testing.assert_array_equal(resumed[name], values)


def test_cells_without_it_keep_their_names():
    assert "settled" not in encode(BUDGET)
    assert ENDLESS.cell != ENDING.cell


def test_nothing_starts_from_a_step_that_may_never_come():
    with pytest.raises(HeadstartError, match="ends once it is settled"):
        hs.From(ENDING)
    with pytest.raises(HeadstartError, match="ends once it is settled"):
        hs.Best((ENDING,), "test_accuracy")
    assert hs.From(ENDING, hs.Reaches("test_accuracy", 0.9)).run.cell == ENDING.cell


def test_full_batches_of_several_sizes_are_refused():
    phases = hs.Phases((hs.Phase(size=16, steps=10), hs.Phase(size=64)))
    with pytest.raises(HeadstartError, match=r"leave it out, or use Batch"):
        replace(ENDING, batch=hs.FullBatch(), plan=phases)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hs.Settled("high"), "Settled.value='high'.: give a finite number"),
        (lambda: hs.Settled(0.9, records=1), "Settled.records=1"),
        (lambda: hs.Budget(10, settled=0.9), r"Budget.settled=0.9.: give Settled"),
    ],
)
def test_bad_values_are_named(make, said):
    with pytest.raises(HeadstartError, match=said):
        make()
