"""The contestants of `benchmarks.stability` take the same steps; bars that are missed are named."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.stability import NetworkSetting, Row, Setting, contestants, missed, settings, table

SMALL = Setting("small", size=20, dim=12, batch=6)
WAYS = [pytest.param(name, way, id=f"{name}, {way}") for name, ways in contestants(SMALL).items() for way in ways]


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_every_contestant_takes_the_same_steps(name, way):
    contestant, ours = contestants(SMALL)[name][way](), contestants(SMALL)["ours"]["fused"]()
    assert contestant.advance(9) == 9 * contestant.pairs
    ours.advance(9)
    np.testing.assert_allclose(contestant.found(), ours.found(), rtol=1e-4, atol=1e-6)
    assert not np.array_equal(ours.found()[0], ours.found()[1])


@pytest.mark.parametrize("name", ["loop", "vmap"])
def test_contestants_of_networks_take_the_same_steps(name):
    small = NetworkSetting("small", width=4, depth=2, side=6, size=20, batch=6)
    (make,), (our,) = (contestants(small)[who].values() for who in (name, "ours"))
    contestant, ours = make(), our()
    contestant.advance(5), ours.advance(5)
    np.testing.assert_allclose(contestant.found(), ours.found(), rtol=2e-3, atol=2e-5)
    assert not np.array_equal(ours.found()[0], ours.found()[1])


def test_an_order_begins_again_after_its_last_step():
    one, other = (contestants(SMALL)["ours"]["fused"]() for _ in range(2))
    one.advance(5000)
    for steps in (4000, 96, 1, 903):
        other.advance(steps)
    assert np.array_equal(one.found(), other.found())


def test_bars_that_are_missed_are_named():
    fast, slow = (Row(name, ours, {"loop": 300.0, "vmap": 90.0}, {}) for name, ours in (("a", 10.0), ("b", 50.0)))
    assert missed([fast, slow]) == ["b: 6.00 times the loop, not 10"]
    assert fast.over_best == 9.0
    assert "30.00" in table([fast])
    network = Row("c", 100.0, {"loop": 120.0}, {}, bar=1.3)  # it has no peer by hand
    assert missed([network]) == ["c: 1.20 times the loop, not 1.3"]
    assert table([fast, network]).count("\n") == 2
    assert [setting.name for setting in settings(quick=True)] == [s.name for s in settings()][::2]
