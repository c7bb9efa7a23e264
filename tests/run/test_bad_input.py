"""Bad input is met where it is given, with an error that names the argument."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.run import decode

RUN = hs.Run(hs.Parity(8, 2), hs.MLP(16), hs.Online(), hs.MSE(), hs.SGD(0.1), batch=hs.Batch(8))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: hs.SGD(0.1, rates={"input": "x"}), "rates"),
        (lambda: hs.SGD(0.1, rates=(("input", 0.1), ("input", 0.2))), "once"),
        (lambda: hs.SGD(0.1, rates={"inputs": 1}), "roles are"),
        (lambda: hs.AdamW(0.1, beta1="a"), "beta1='a'"),
        (lambda: hs.AdamW(0.1, weight_decay=-1), "weight_decay=-1"),
        (lambda: hs.LayerScale(init={"input": -1}), "init="),
        (lambda: hs.LayerScale(rate=3), "rate=3"),
        (lambda: hs.Phase(fraction="x"), "fraction='x'"),
        (lambda: hs.Phases(hs.Phase(size=1)), "sequence"),
        (lambda: hs.Parity(4, 1, support=(1.0,)), "support"),
        (lambda: hs.Parity(4, 2, support="ab"), "support"),
        (lambda: hs.SingleIndex(4, link=3), "link=3"),
        (lambda: replace(RUN, methods=hs.LayerScale()), "methods"),
        (lambda: replace(RUN, task=hs.SingleIndex), "task=SingleIndex"),
        (lambda: decode({"type": ""}), "stored part ''"),
        (lambda: decode({"type": 3}), "stored part 3"),
    ],
)
def test_a_bad_argument_is_named(make, named):
    with pytest.raises(hs.HeadstartError, match=named):
        make()


def test_one_number_written_as_integer_or_real_is_one_cell():
    for one, other in [(2, 2.0)]:
        plans = [hs.Phases((hs.Phase(size=10, epochs=e), hs.Phase())) for e in (one, other)]
        assert replace(RUN, plan=plans[0]).cell == replace(RUN, plan=plans[1]).cell
    assert replace(RUN, optimizer=hs.SGD(1)).cell == replace(RUN, optimizer=hs.SGD(1.0)).cell


def test_seeds_may_come_from_numpy():
    assert [RUN.at(seed).cell for seed in np.arange(2)] == [RUN.cell] * 2
    assert RUN.at(np.int64(3)) == RUN.at(3)
