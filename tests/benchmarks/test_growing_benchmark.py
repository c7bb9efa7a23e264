"""The contestants of `benchmarks.growing` train the same children; bars that are missed are named."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

pytest.importorskip("transformers")

from benchmarks.growing import Row, contestants, missed, settings, table
from benchmarks.growing_children import Alone, Peer, Setting, Stacked, TwoProcesses

SMALL = Setting(8, depth=2, layers=1, children=3, length=8, batch=4, symbols=32)


def test_children_stacked_and_one_after_another_take_the_same_steps():
    stacked, alone = Stacked(SMALL), Alone(SMALL)
    for contestant in (stacked, alone):
        assert contestant.advance(3) > 0
    for ours, theirs in zip(stacked.weights(), alone.weights(), strict=True):
        # Softmax does not know of a bias of the keys: its gradient is rounding alone, which AdamW makes a step of.
        for name, weight in ((name, weight) for name, weight in ours.items() if not name.endswith("key.bias")):
            np.testing.assert_allclose(weight, theirs[name], rtol=1e-3, atol=2e-5, err_msg=name)
    one, other = stacked.weights()[:2]
    assert any(not np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_two_processes_have_all_children_between_them():
    halves, whole = TwoProcesses(Stacked, SMALL), Stacked(SMALL)
    try:
        assert halves.advance(2) > 0
        whole.advance(2)
        found = halves.weights()
    finally:
        halves.close()
    assert len(found) == SMALL.children
    for ours, theirs in zip(found, whole.weights(), strict=True):
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("kind", ["GPT-1", "GPT-2"])
def test_the_peer_trains_a_model_of_the_same_size(kind):
    peer = Peer(SMALL, kind).children
    (batch, *_), (model, *_) = peer.batches, peer.models
    with torch.no_grad():
        before = model(input_ids=batch, labels=batch).loss.item()
    peer.advance(20)
    with torch.no_grad():
        after = model(input_ids=batch, labels=batch).loss.item()
    assert after < before
    assert len(peer.models) == SMALL.children
    ours = sum(np.prod(p.shape) for p in SMALL.jobs[0].run.parameters)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(ours, rel=0.05)


def test_bars_that_are_missed_are_named():
    times = dict.fromkeys(contestants(SMALL), 10.0) | {"loop": 12.0, "two stacked": 20.0, "two loops": 12.5}
    (slow,) = rows = [Row(32, "narrow", times)]
    assert missed(rows) == [
        "narrow: a child costs 1.20 times less in a stack, not 1.5",
        "narrow: two processes are 0.80 times as fast as one, not 1",
    ]
    assert slow.peer == 1.0
    fast = Row(64, "wide", times | {"two loops": 6.0})
    assert missed([fast]) == []
    assert "1.67" in table([fast])
    assert [setting.width for setting in settings(quick=True)] == [setting.width for setting in settings()]
