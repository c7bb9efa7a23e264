"""What the studies of stability share."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.studies.stability import MaximumExponent, PairKnobs, groups, of_pairs
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
