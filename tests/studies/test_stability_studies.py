"""What the studies of stability share."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.studies.stability import (
    MaximumExponent,
    PairKnobs,
    connectivity,
    controls,
    groups,
    iterations,
    networks,
    of_pairs,
)
from headstart.studies.stability._settings import LAPTOP as LAPTOP_OF_NETWORKS
from headstart.studies.stability._settings import NAMES
from headstart.studies.stability.logistic import LAPTOP, PAPER, computed, without_swap

KNOBS = PairKnobs(num_seeds=2, sizes=(100, 200, 400), num_pairs=5, group=2, resamples=20)


@dataclass(frozen=True)
class Fake:
    """Results of pairs whose quantities are power laws of the size."""

    knobs: Any
    computed: dict


def results(**exponents):
    """Pair j of a trial has (1 + j + trial / 10) m^b."""
    parts = {}
    for name, size, trial, first, num in groups(KNOBS):
        j = first % 10_000 + np.arange(num)
        values = {q: ((1 + j + trial / 10) * size**b)[:, None] * [0.5, 1.0] for q, b in exponents.items()}
        parts[name] = {"step": np.array([10, 20]), **values}
    return Fake(KNOBS, parts)


def test_pairs_of_groups_are_put_together_by_trial_and_size():
    values = of_pairs(results(distance=-1.0), "distance")
    expected = [[[(1 + j + t / 10) / m for j in range(5)] for m in KNOBS.sizes] for t in range(2)]
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(of_pairs(results(distance=-1.0), "distance", record=0), np.array(expected) / 2)


def test_every_size_has_pairs_of_its_own_and_every_trial_the_same():
    found = {}
    for _, size, trial, first, num in groups(PAPER):
        found.setdefault((size, trial), set()).update(range(first, first + num))
    assert all(len(numbers) == 90 for numbers in found.values())
    assert found[800, 0] == found[800, 2]
    assert found[800, 0].isdisjoint(found[1600, 0])
    other = {first for _, _, _, first, _ in groups(replace(PAPER, first_pair=90))}
    assert other.isdisjoint(first for _, _, _, first, _ in groups(PAPER))


def test_exponents_and_their_differences_are_those_of_the_laws():
    seen = results(loss_gap=-1.0, stability=-1.2, stability_without_z=-1.3, distance=-1.1)
    assert MaximumExponent("loss_gap")(seen).value == pytest.approx(-1.0, abs=1e-4)
    assert MaximumExponent("stability", "loss_gap")(seen).value == pytest.approx(-0.2, abs=1e-4)
    assert MaximumExponent("stability", "loss_gap", floor=-0.5)(seen).value == pytest.approx(0.5, abs=1e-4)
    beside = MaximumExponent("stability")(seen), MaximumExponent("stability").beside(seen)
    assert set(beside[1]) == {
        "bootstrap sd", "least to largest trial", "fit in logarithms", "90% quantile", "z left out",
    }  # fmt: skip
    assert beside[1]["z left out"].value == pytest.approx(-1.3, abs=1e-4)
    assert "z left out" not in MaximumExponent("distance").beside(seen)


def test_the_laptop_preset_is_the_paper_s_for_fewer_steps():
    assert replace(LAPTOP, iterations=PAPER.iterations) == PAPER
    assert PAPER.looks[-1] == 100_000
    assert LAPTOP.looks == (1000, 2000, 5000, 10_000)
    parts = computed(PAPER, {})
    assert sum(part.num_pairs for name, part in parts.items() if name.startswith("pairs")) == 5 * 90 * 3
    assert not parts["no_swap"].swapped


def test_studies_of_networks_take_the_same_pairs_so_that_a_store_computes_them_once():
    laptop = networks.STUDY.presets["laptop"]
    shared = networks.computed(laptop, {})
    assert len(shared) == 3 * len(laptop.sizes) * laptop.num_pairs * laptop.num_seeds
    for study in (connectivity, iterations, controls):
        own = study.computed(study.STUDY.presets["laptop"], {})
        common = set(own) & set(shared)
        assert len(common) >= 2 * 3 * laptop.num_pairs
        assert all(own[name] == shared[name] for name in common)


@pytest.mark.slow
def test_the_paper_preset_of_networks_is_table_2_1():
    part = networks.computed(networks.STUDY.presets["paper"], {})["2b_15000_0_0"]
    assert (part.run.optimizer.lr, part.run.optimizer.momentum, part.run.batch.size) == (0.1, 0.9, 128)
    factors = part.run.optimizer.schedule.factors(part.run.budget.steps)
    assert [factors[step] for step in (31_999, 32_000, 48_000)] == pytest.approx([1, 0.1, 0.01])
    assert (part.run.model.depth, part.record[-1], part.interpolate, part.run.task.num_test) == (
        20,
        100_000,
        76,
        10_000,
    )
    longer = iterations.computed(iterations.STUDY.presets["paper"], {})["longer_2b_15000_0_0"].run
    assert longer.budget.steps == 150_000
    assert np.array_equal(longer.optimizer.schedule.factors(150_000)[:100_000], factors)


def curves(**changes):
    """Pairs of networks whose loss falls like 1000 / steps, with stability m^-0.5 and a gap of steps / m."""
    k = iterations.Knobs(**{**LAPTOP_OF_NETWORKS, "num_pairs": 5, "resamples": 20, **changes})
    steps, found = np.array(k.looks), {}
    for name in NAMES:
        for group, size, _, _, _ in groups(k, name):
            found[group] = {
                "step": steps,
                "train_loss": (size / 250 * 20.0 / steps)[None],
                "stability": np.full((1, len(steps)), size**-0.5),
                "loss_gap": (steps / size)[None],
            }
    return Fake(k, found)


def test_a_stop_by_epochs_or_by_loss_is_later_for_larger_sets():
    seen = curves()
    gaps = {s: iterations.stopped(seen, "2a", "loss_gap", s)[0, :, 0] for s in ("half", "steps", "epochs", "loss")}
    assert gaps["half"].tolist() == [500 / m for m in seen.knobs.sizes]
    assert gaps["steps"].tolist() == [1000 / m for m in seen.knobs.sizes]
    assert gaps["epochs"].tolist() == [1.0] * 4
    steps = gaps["loss"] * seen.knobs.sizes  # the first look at a loss of 0.1 or less: 200, 320, 512 and 800 steps
    assert steps == pytest.approx([250, 400, 640, 800])
    assert iterations.Stopped("2a", "steps")(seen).value == pytest.approx(0.5)
    assert iterations.Stopped("2a", "epochs")(seen).value == pytest.approx(-0.5)
    assert iterations.Stopped("2a", "epochs", over_steps=True)(seen).value == pytest.approx(-1.0)
    assert iterations.OtherRange("2a")(seen).value == pytest.approx(0.0)


def test_barriers_are_those_of_the_size_and_split_asked_for():
    k = connectivity.Knobs(**{**LAPTOP_OF_NETWORKS, "num_pairs": 3, "resamples": 20})
    alpha, found = np.array([-1, 0, 0.5, 1, 2.0]), {}
    for name, deep in zip(NAMES, (0.01, 0.05, 0.3), strict=True):
        for group, size, _, _, _ in groups(k, name):
            fall = deep if size == 1000 else 0.0
            found[group] = {"alpha": alpha, "train_accuracy": np.array([[0, 0.9, 0.9 - fall, 0.9, 0]]),
                            "test_accuracy": np.array([[0, 0.5, 0.5, 0.5, 0]])}  # fmt: skip
    seen = Fake(k, found)
    assert connectivity.Barrier("2b")(seen).value == pytest.approx(0.3)
    assert connectivity.Barrier("2b", "2a")(seen).value == pytest.approx(0.25)
    beside = connectivity.Barrier("1a").beside(seen)
    assert [beside[name].value for name in ("test accuracy", "smallest size", "share connected")] == [0, 0, 1]


def test_a_nudge_is_compared_with_the_swap_of_the_same_pair():
    k = controls.Knobs(**{**LAPTOP_OF_NETWORKS, "num_pairs": 3, "resamples": 20})
    found = {}
    for name in NAMES:
        for number, (group, size, _, _, _) in enumerate(groups(k, name)):
            if size == 1000:
                swapped = np.full((1, len(k.looks)), 1.0 + number)
                found[group] = {"step": np.array(k.looks), "distance": swapped}
                found[f"nudged_{group}"] = {"step": np.array(k.looks), "distance": 0.8 * swapped}
    estimate = controls.NudgeOverSwap("1a", "distance")(Fake(k, found))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.8, 0.8, 0.8))


def test_the_control_sees_any_difference():
    for value in (0.0, 1e-9):
        seen = Fake(KNOBS, {"no_swap": {"distance": np.zeros((2, 2)), "stability": np.array([[0.0, value]])}})
        assert without_swap(seen).value == value


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"sizes": (200, 100)}, "sizes"), ({"num_pairs": 1}, "num_pairs=1"), ({"first_pair": 9_999}, "first_pair=9999")],
)
def test_knobs_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(HeadstartError, match=message):
        replace(KNOBS, **changes)
