"""Pairs S, S' that differ in one row."""

import numpy as np
import pytest

import headstart as hs
from headstart.tasks import draw_swap, held_out

ROWS = hs.Split(hs.Parity(9, 2), train=300, test=100)


def training(pair, swapped=True, seed=0, rows=ROWS, **settings):
    return hs.SwapRow(rows, pair, swapped, **settings).population(seed)


@pytest.mark.parametrize("pair", [0, 1, 17])
def test_a_pair_differs_in_one_row_which_is_a_test_row(pair):
    task = hs.SwapRow(ROWS, pair)
    old, new, test = training(pair, False), training(pair), held_out(task, 0)
    (changed,) = np.flatnonzero((old.x != new.x).any(axis=1))
    assert changed == task.swap.place
    assert np.array_equal(new.x[changed], test.x[task.swap.test_row])
    assert new.y[changed] == test.y[task.swap.test_row]
    assert np.array_equal(np.delete(old.y, changed), np.delete(new.y, changed))


def test_without_a_swap_it_is_the_task_with_the_pair_as_its_seed():
    task = hs.SwapRow(ROWS, 5, swapped=False)
    for part in (lambda t, seed: t.population(seed), held_out):
        one, other = part(task, 99), part(ROWS, 5)
        assert np.array_equal(one.x, other.x)
        assert np.array_equal(one.y, other.y)


def test_the_seed_of_a_run_changes_no_row():
    assert np.array_equal(training(3, seed=0).x, training(3, seed=1).x)
    assert not np.array_equal(training(3).x, training(4).x)


def test_a_row_that_is_asked_for_twice_is_exchanged_twice():
    task = hs.SwapRow(ROWS, 2)
    i = task.swap.place
    drawn = task.sample(0, np.array([i, (i + 1) % 300, i]))
    z = held_out(task, 0).x[task.swap.test_row]
    assert np.array_equal(drawn.x[[0, 2]], np.stack([z, z]))
    assert not np.array_equal(drawn.x[1], z)


@pytest.mark.parametrize("swapped", [True, False])
def test_z_may_be_left_out_of_the_test_rows_of_both(swapped):
    task = hs.SwapRow(ROWS, 7, swapped, z_in_test=False)
    whole = held_out(hs.SwapRow(ROWS, 7), 0)
    assert task.num_test == 99
    assert np.array_equal(held_out(task, 0).x, np.delete(whole.x, task.swap.test_row, axis=0))
    trained = {x.tobytes() for x in task.population(0).x}
    assert trained.isdisjoint(x.tobytes() for x in held_out(task, 0).x)


def test_rows_are_exchanged_uniformly_and_independently():
    drawn = np.array([draw_swap(pair, 10, 5) for pair in range(4000)])
    table = np.zeros((10, 5))
    np.add.at(table, tuple(drawn.T), 1)
    assert ((table - 80) ** 2 / 80).sum() < 85  # chi-square of 49 degrees is above with probability 1e-3


def test_two_runs_of_a_pair_start_alike_and_part_only_once_the_row_is_seen():
    def run(swapped):
        task = hs.SwapRow(ROWS, 4, swapped)
        plan, budget = hs.Fixed(300, replacement=False), hs.Budget(19, 1)
        return hs.Run(task, hs.MLP(4), plan, hs.MSE(), hs.SGD(0.1), hs.Batch(16), budget=budget, seed=3)

    one, other = (np.array(hs.trained([run(swapped)])[0].trace["test_loss"]) for swapped in (False, True))
    course = run(True).plan.course(hs.Batch(16), 19)
    order = course.ids(course.start(3), 0, 19)
    seen = int(np.flatnonzero(order == hs.SwapRow(ROWS, 4).swap.place)[0]) // 16
    assert np.array_equal(one[: seen + 1], other[: seen + 1])
    assert one[-1] != other[-1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hs.SwapRow(hs.Parity(9, 2), 0), "SwapRow.task=Parity.*give a task of rows"),
        (lambda: hs.SwapRow(hs.Split, 0), "give a task of rows"),
        (lambda: hs.SwapRow(ROWS, -1), "seed=-1"),
        (lambda: hs.SwapRow(ROWS, 0, swapped=2), "swapped=2"),
        (lambda: hs.SwapRow(hs.Split(hs.Parity(9, 2), 300, 1), 0, z_in_test=False), "num_test=1"),
    ],
)
def test_a_pair_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(hs.HeadstartError, match=message):
        make()
