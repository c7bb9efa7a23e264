"""The contestants of `benchmarks.local_signal` take steps of the same law; bars that are missed are named."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.local_signal import CONTESTS, Direct, Filter, Reduced, Row, filters, missed, table

SMALL = Filter("small", 40, 0.5, batch=400)


def test_direct_contestants_take_steps_of_the_chains_law():
    found = []
    for make in (lambda: Reduced(SMALL, 0.05), lambda: Direct(SMALL, True, 0.05), lambda: Direct(SMALL, False, 0.05)):
        contestant = make()
        contestant.advance(40)
        state = contestant.state if isinstance(contestant, Reduced) else (contestant.w.detach(), contestant.b.detach())
        found.append((float(state[0] if np.ndim(state[0]) == 0 else state[0][0]), float(state[-1])))
    start = SMALL.state
    for signal, bias in found:  # batches of 400: all follow the population's way closely
        assert abs(signal - found[0][0]) < 0.1 * abs(found[0][0] - start[0]) + 0.01
        assert abs(bias - found[0][1]) < 0.1 * abs(found[0][1] - start[2])


def test_bars_that_are_missed_are_named():
    fast, slow = (
        Row(name, ours, {"autograd": 300.0, "by hand": 200.0}, 10.0) for name, ours in (("a", 10.0), ("b", 50.0))
    )
    assert missed([fast, slow]) == ["b: 4.00 times the best peer, not 10"]
    assert "20.0" in table([fast])
    assert [f.name for f in filters(True)] == [f.name for f in filters(False)][:2]
    assert len({name for name, _ in CONTESTS}) == len(CONTESTS)
