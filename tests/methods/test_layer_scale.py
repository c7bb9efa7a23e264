"""Layer-wise scales."""

import json

import pytest

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.units import Budget
from headstart.engines import lower
from headstart.losses import MSE
from headstart.methods import LayerScale, Method
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Online
from headstart.run import Run, decode, encode
from headstart.tasks import Parity

PARAMETERS = MLP(4, depth=3).parameters(5)


def lowered(*methods, rates=()):
    run = Run(Parity(5, 2), MLP(4, depth=3), Online(), MSE(), SGD(0.5, rates), methods=methods, budget=Budget(10))
    return lower(run)


@pytest.mark.parametrize("method", [Method(), LayerScale(), LayerScale(init={Role.HIDDEN: 1}, rate={Role.HIDDEN: 1})])
def test_the_neutral_method_scales_by_exactly_one(method):
    assert {method.init_scale(p) for p in PARAMETERS} == {method.rate_scale(p, SGD(1)) for p in PARAMETERS} == {1.0}


def test_factors_go_to_their_roles_and_to_no_other():
    method = LayerScale(init={Role.INPUT: 2, Role.BIAS: 0}, rate={Role.READOUT: 0.5})
    assert [method.init_scale(p) for p in PARAMETERS] == [2, 0, 1, 0, 1, 0]
    assert [method.rate_scale(p, SGD(1)) for p in PARAMETERS] == [1, 1, 1, 1, 0.5, 1]


def test_factors_of_several_methods_multiply():
    both = lowered(LayerScale(init={Role.INPUT: 2}, rate={Role.INPUT: 3}), LayerScale(init={Role.INPUT: 4}))
    assert both.init_scales[0] == 8
    assert both.rates[0] == 1.5
    assert set(both.init_scales[1:]) == {1.0}
    assert set(both.rates[1:]) == {0.5}


def test_factors_multiply_the_rate_the_optimizer_gives_the_role():
    assert lowered(LayerScale(rate={Role.READOUT: 3}), rates={Role.READOUT: 2}).rates[4] == 6


def test_initial_weights_are_scaled_in_float32():
    weights = MLP(4, depth=3).initial_weights(5, 0)
    scaled = lowered(LayerScale(init={Role.READOUT: 3})).scaled(weights)
    assert {v.dtype.name for v in scaled.values()} == {"float32"}
    for p in PARAMETERS:
        assert (scaled[p.name] == weights[p.name] * (3 if p.role is Role.READOUT else 1)).all()


def test_a_layer_may_be_named_by_its_number_and_multiplies_with_its_role():
    method = LayerScale(init={0: 3, 2: 5, Role.READOUT: 2}, rate={1: 7})
    assert [method.init_scale(p) for p in PARAMETERS] == [3, 3, 1, 1, 10, 5]
    assert [method.rate_scale(p, SGD(1)) for p in PARAMETERS] == [1, 1, 7, 7, 1, 1]
    assert method == LayerScale(init={Role.READOUT: 2, 2: 5, 0: 3}, rate={1: 7})


def test_alpha_divides_the_input_layer_and_multiplies_the_readout():
    method = LayerScale.alpha(4)
    assert [method.init_scale(p) for p in PARAMETERS] == [0.25, 1, 1, 1, 4, 1]
    assert LayerScale.alpha(1) == LayerScale(init={Role.INPUT: 1, Role.READOUT: 1})
    with pytest.raises(HeadstartError, match="alpha=0"):
        LayerScale.alpha(0)


def test_a_scale_survives_json():
    method = LayerScale(init={Role.INPUT: 2, 1: 3}, rate={Role.READOUT: 0.5})
    assert decode(json.loads(json.dumps(encode(method)))) == method


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"outptu": 2}, "outptu.*readout"),
        ({-1: 2}, "-1"),
        ({0: -2}, "-2"),
        ({True: 2}, "True"),
        ({"input": -1}, "-1"),
        ({"input": float("nan")}, "nan"),
    ],
)
@pytest.mark.parametrize("argument", ["init", "rate"])
def test_a_factor_that_makes_no_sense_is_refused(argument, factors, message):
    with pytest.raises(HeadstartError, match=rf"LayerScale.*{message}"):
        LayerScale(**{argument: factors})
