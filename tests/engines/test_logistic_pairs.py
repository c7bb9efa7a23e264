"""Pairs of logistic regressions by the kernel: what a plain loop and ordinary runs say too."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import headstart as hs
from headstart.core.metric import sign_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream
from headstart.engines.loop import Loop
from headstart.engines.pairs import LogisticPairs
from headstart.engines.pairs.pixels import two_classes
from headstart.tasks import row_numbers

POSITIVE = (5, 6, 7, 8, 9)
# Batches that are no multiple of the rows read at a time, and that cross the end of an epoch.
PART = LogisticPairs(100, 7, 3, trial=2, record=(0, 20, 60), data="made", batch=30)


@dataclass(frozen=True)
class MadeImages:
    """The made images as a task of rows, dealt as `Images` deals its own."""

    num_train: int
    num_test: int = 500

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("logistic",)
    signature: ClassVar[Signature] = Signature((64,))
    metrics: ClassVar = (sign_accuracy(),)

    @property
    def population_size(self):
        return self.num_train

    def sample(self, seed, ids, stream=Stream.DATA):
        made, testing = two_classes("made", POSITIVE), stream is Stream.EVALUATION
        x, y = (made.test_x, made.test_y) if testing else (made.train_x, made.train_y)
        rows = row_numbers("MadeImages", seed, ids, stream, 0 if testing else self.num_train, self.num_test, len(x))
        return Samples(x[rows].astype(np.float32) / np.float32(255), y[rows])

    def population(self, seed, ids=None):
        return self.sample(seed, np.arange(self.num_train) if ids is None else ids)


def ordinary(part, pair, swapped):
    """One of a pair as an ordinary Run."""
    task = hs.SwapRow(MadeImages(part.size), pair, swapped)
    plan, budget = hs.Fixed(part.size, replacement=False), hs.Budget(part.record[-1], 20)
    return hs.Run(
        task,
        hs.MLP(depth=1),
        plan,
        hs.Logistic(),
        hs.SGD(part.lr),
        hs.Batch(part.batch),
        budget=budget,
        seed=part.trial,
    )


def plain_loop(part, pair, swapped):
    """Weights and bias at the end, in NumPy and float64, row by row of the plan."""
    run = ordinary(part, pair, swapped)
    data = run.task.population(0)
    x, y = data.x.astype(np.float64), data.y.astype(np.float64)
    fresh = run.fresh_weights()
    w, bias = fresh["layers.0.weight"][0].astype(np.float64), float(fresh["layers.0.bias"][0])
    course = run.plan.course(run.batch, run.budget.steps)
    for step in range(run.budget.steps):
        ids = course.ids(course.start(run.seed), step)
        slope = -y[ids] / (1 + np.exp(y[ids] * (x[ids] @ w + bias))) / len(ids)
        w, bias = w - part.lr * slope @ x[ids], bias - part.lr * slope.sum()
    return w, bias, run.task


@pytest.fixture(scope="module")
def found():
    return PART.compute()


def test_the_pair_is_where_a_plain_loop_in_float64_ends(found):
    test = two_classes("made", POSITIVE)
    for number, pair in enumerate(PART.pairs):
        (w, b, task), (v, c, _) = (plain_loop(PART, pair, swapped) for swapped in (False, True))
        assert found["place"][number] == task.swap.place
        losses = [np.logaddexp(0, -test.test_y * (test.test_x / 255 @ u + d)) for u, d in ((w, b), (v, c))]
        expected = {
            "distance": np.sqrt(((w - v) ** 2).sum() + (b - c) ** 2),
            "norm": np.sqrt((w**2).sum() + b**2),
            "stability": np.abs(losses[0] - losses[1]).max(),
            "mean_stability": np.abs(losses[0] - losses[1]).mean(),
            "test_loss": losses[0].mean(),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(found[name][number, -1], value, rtol=2e-4, err_msg=name)


def test_the_pair_is_what_two_ordinary_runs_of_the_loop_engine_are(found):
    for number, pair in enumerate(PART.pairs):
        (one,) = Loop().train([hs.engines.Job(ordinary(PART, pair, False), keep=(hs.Step(60),))])
        (other,) = Loop().train([hs.engines.Job(ordinary(PART, pair, True), keep=(hs.Step(60),))])
        np.testing.assert_allclose(found["test_loss"][number], one.trace["test_loss"][[0, 1, 3]], rtol=1e-5)
        (a,), (b,) = one.states.values(), other.states.values()
        apart = hs.measures.distance(a.weights, b.weights)
        np.testing.assert_allclose(found["distance"][number, -1], apart, rtol=1e-3)


def test_without_a_swap_nothing_differs_at_all():
    found = replace(PART, swapped=False).compute()
    for name in ("stability", "mean_stability", "stability_without_z", "distance", "normalised_distance"):
        assert not found[name].any()
    assert np.array_equal(found["norm"], found["other_norm"])
    assert np.array_equal(found["loss_gap"], PART.compute()["loss_gap"])  # S is the same S


def test_before_training_nothing_differs_and_a_nudge_is_a_distance(found):
    assert not found["distance"][:, 0].any()
    nudged = replace(PART, swapped=False, nudge=1e-3).compute()
    np.testing.assert_allclose(nudged["distance"][:, 0], 1e-3, rtol=1e-3)
    assert (nudged["distance"][:, -1] < nudged["distance"][:, 0]).all()  # a convex loss forgets a nudge


def test_results_do_not_depend_on_how_pairs_are_grouped_or_when_they_are_looked_at(found):
    alone = replace(PART, first_pair=9, num_pairs=1).compute()
    late = replace(PART, record=(60,)).compute()
    for name, values in found.items():
        if name != "step":
            assert np.array_equal(alone[name][0], values[2]), name
            assert np.array_equal(late[name][..., -1], values[..., -1]), name


def test_another_trial_has_the_same_rows_and_another_way_through_them(found):
    other = replace(PART, trial=3).compute()
    assert np.array_equal(other["z"], found["z"])
    assert np.array_equal(other["place"], found["place"])
    assert not np.isclose(other["distance"][:, -1], found["distance"][:, -1]).any()


def test_z_is_the_row_that_swap_row_takes(found):
    for number, pair in enumerate(PART.pairs):
        task = hs.SwapRow(MadeImages(PART.size), pair)
        z = task.sample(0, np.array([task.swap.place]))
        row = two_classes("made", POSITIVE).test_x[found["z"][number]]
        assert np.array_equal(np.rint(255 * z.x[0]), row)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 1}, "size=1"),
        ({"batch": 200}, "batch=200.*at most 100"),
        ({"record": (20, 10)}, r"record=\(20, 10\).*in order"),
        ({"record": ()}, r"record=\(\)"),
        ({"lr": 0}, "lr=0"),
        ({"nudge": -1}, "nudge=-1"),
        ({"first_pair": -1}, "seed=-1"),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(hs.HeadstartError, match=message):
        replace(PART, **changes)


def test_more_rows_than_there_are_and_a_class_that_is_not_there_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_DATA", str(tmp_path))
    with pytest.raises(hs.HeadstartError, match="made has 4000 training rows"):
        replace(PART, size=4001).compute()
    with pytest.raises(hs.HeadstartError, match=r"positive=\(77,\)"):
        replace(PART, positive=(77,)).compute()
    with pytest.raises(hs.HeadstartError, match="headstart data get mnist"):
        replace(PART, data="mnist").compute()
