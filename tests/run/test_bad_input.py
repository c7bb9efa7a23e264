"""Bad input is met where it is given, with an error that names the argument."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.core.encoding import decode

RUN = hs.Run(hs.Parity(8, 2), hs.MLP(16), hs.Online(), hs.MSE(), hs.SGD(0.1), batch=hs.Batch(8))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: hs.LayerScale(rate={"input": "x"}), "rate"),
        (lambda: hs.LayerScale(rate=(("input", 0.1), ("input", 0.2))), "once"),
        (lambda: hs.LayerScale(rate={"inputs": 1}), "roles are"),
        (lambda: hs.Signature((0,)), "inputs"),
        (lambda: hs.Signature((3,), symbols=0), "symbols=0"),
        (lambda: hs.Split(hs.SingleIndex(4), 0.5), "finite population"),
        (lambda: hs.Split(hs.Parity(4, 2), 16), "train=16"),
        (lambda: hs.Split(hs.Parity(4, 2), 10, test=7), "do not fit"),
        (lambda: hs.StepDecay((0.5, 0.2)), "rising"),
        (lambda: hs.WarmUpStableDecay(0.6, 0.6), "at most 1"),
        (lambda: hs.Cosine(2), "end=2"),
        (lambda: hs.WarmUp(-1), "steps=-1"),
        (lambda: hs.Adafactor(beta2_decay=1), "beta2_decay=1"),
        (lambda: hs.GradientFilter(kind="mean"), "ema or window"),
        (lambda: hs.GradientFilter(object()), "attach"),
        (lambda: hs.OnSphere(roles=("inputs",)), "roles are"),
        (lambda: hs.InBall(radius=0), "radius=0"),
        (lambda: hs.PhaseLoss((3,)), "losses"),
        (lambda: hs.PhaseLoss((hs.CrossEntropy(),)).check(hs.Parity(4, 2)), "Parity offers"),
        (lambda: hs.Transformer(readout="tokens").parameters(hs.Signature((4,))), "readout='mean' or 'last'"),
        (lambda: hs.Transformer().parameters(hs.Signature((4,), outputs=(4, 3))), "readout='tokens'"),
        (lambda: hs.ModularArithmetic(5, operation="division"), "addition or multiplication"),
        (lambda: hs.AdamW(0.1, beta1="a"), "beta1='a'"),
        (lambda: hs.AdamW(0.1, weight_decay=-1), "weight_decay=-1"),
        (lambda: hs.LayerScale(init={"input": -1}), "init"),
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


@pytest.mark.parametrize(
    ("name", "instead"),
    [("QueryKey", "LayerScale.query_key"), ("ModularAddition", "ModularArithmetic"), ("Symbols", "looks up")],
)
def test_a_name_that_was_removed_says_what_to_use(name, instead):
    with pytest.raises(hs.HeadstartError, match=instead):
        getattr(hs, name)
    assert not hasattr(hs, name)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        hs.Nonsense  # noqa: B018
