"""Layer-wise scales."""

import json

import pytest
import torch

from headstart.core.encoding import decode, encode
from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.signature import Signature
from headstart.core.units import Budget
from headstart.engines import lower
from headstart.losses import MSE
from headstart.methods import LayerScale, Method
from headstart.models import MLP, Transformer
from headstart.optimizers import SGD
from headstart.plans import Online
from headstart.run import Run
from headstart.tasks import Parity

PARAMETERS = MLP(4, depth=3).parameters(Signature((5,)))


def lowered(*methods):
    return lower(Run(Parity(5, 2), MLP(4, depth=3), Online(), MSE(), SGD(0.5), methods=methods, budget=Budget(10)))


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


def test_factors_multiply_the_rate_of_the_optimizer():
    assert lowered(LayerScale(rate={Role.READOUT: 3})).rates == (0.5, 0.5, 0.5, 0.5, 1.5, 0.5)


def test_initial_weights_are_scaled_in_float32():
    weights = MLP(4, depth=3).initial_weights(Signature((5,)), 0)
    scaled = lowered(LayerScale(init={Role.READOUT: 3})).fresh().weights
    assert {v.dtype.name for v in scaled.values()} == {"float32"}
    for p in PARAMETERS:
        assert (scaled[p.name] == weights[p.name] * (3 if p.role is Role.READOUT else 1)).all()


def test_a_layer_may_be_named_by_its_number_and_multiplies_with_its_role():
    method = LayerScale(init={0: 3, 2: 5, Role.READOUT: 2}, rate={1: 7})
    assert [method.init_scale(p) for p in PARAMETERS] == [3, 3, 1, 1, 10, 5]
    assert [method.rate_scale(p, SGD(1)) for p in PARAMETERS] == [1, 1, 7, 7, 1, 1]
    assert method == LayerScale(init={Role.READOUT: 2, 2: 5, 0: 3}, rate={1: 7})


def test_alpha_divides_the_first_layer_with_its_bias_and_multiplies_the_readout():
    method = LayerScale.alpha(4)
    assert [method.init_scale(p) for p in PARAMETERS] == [0.25, 0.25, 1, 1, 4, 1]
    assert {method.rate_scale(p, SGD(1)) for p in PARAMETERS} == {1.0}
    assert LayerScale.alpha(1) == LayerScale(init={0: 1, Role.READOUT: 1})
    with pytest.raises(HeadstartError, match="alpha=0"):
        LayerScale.alpha(0)


def test_alpha_leaves_the_function_of_a_two_layer_network_as_it_is():
    model, signature = MLP(4), Signature((5,))
    x = torch.linspace(-1, 1, 15).reshape(3, 5)
    run = Run(Parity(5, 2), model, Online(), MSE(), SGD(0.5), methods=(LayerScale.alpha(4),), budget=Budget(10))

    def predictions(weights):
        module = model.module(signature)
        module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        return module(x).detach()

    assert torch.allclose(predictions(lower(run).fresh().weights), predictions(run.fresh_weights()), atol=1e-6)


def test_queries_and_keys_are_scaled_in_all_layers_and_nothing_else_is():
    method = LayerScale.query_key(rate=3, init=2)
    for p in Transformer(width=8, depth=2, heads=2).parameters(Signature((5,))):
        of_these = p.role in (Role.QUERY, Role.KEY)
        assert (method.init_scale(p), method.rate_scale(p, SGD(1))) == ((2, 3) if of_these else (1, 1))
    for name in ("rate", "init"):
        with pytest.raises(HeadstartError, match=f"{name}=0"):
            LayerScale.query_key(**{name: 0})


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
