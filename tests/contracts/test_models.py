"""What every model must do. A new model joins by adding one row to MODELS."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import special, stats

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.models import MLP, Model
from headstart.models.mlp import Activation, Init
from headstart.run import decode, encode

DIM = 7


@dataclass(frozen=True)
class Row:
    """A model, and its forward pass written out in NumPy: (model, weights, x) to predictions, in float64."""

    model: Model
    forward: Callable


def mlp_forward(model, weights, x):
    activation = {
        "relu": lambda z: np.maximum(z, 0),
        "gelu": lambda z: z * (1 + special.erf(z / np.sqrt(2))) / 2,
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        "quadratic": lambda z: z * z,
    }[model.activation]
    h = x.astype(np.float64)
    for layer in range(model.depth):
        h = h @ weights[f"layers.{layer}.weight"].astype(np.float64).T
        if model.bias:
            h = h + weights[f"layers.{layer}.bias"]
        if layer < model.depth - 1:
            h = activation(h)
    return h[:, 0]


MODELS = [
    pytest.param(Row(MLP(), mlp_forward), id="mlp"),
    pytest.param(Row(MLP(16, activation=Activation.GELU), mlp_forward), id="gelu"),
    pytest.param(Row(MLP(16, activation=Activation.SIGMOID), mlp_forward), id="sigmoid"),
    pytest.param(Row(MLP(16, activation=Activation.QUADRATIC), mlp_forward), id="quadratic"),
    pytest.param(Row(MLP(depth=1), mlp_forward), id="depth 1"),
    pytest.param(Row(MLP(depth=1, bias=False), mlp_forward), id="depth 1 without bias"),
    pytest.param(Row(MLP(12, depth=4), mlp_forward), id="depth 4"),
    pytest.param(Row(MLP(12, depth=8, bias=False, init=Init.GAUSSIAN), mlp_forward), id="depth 8"),
    pytest.param(Row(MLP(16, bias=False), mlp_forward), id="without bias"),
    pytest.param(Row(MLP(16, init=Init.GAUSSIAN), mlp_forward), id="gaussian"),
    pytest.param(Row(MLP(1), mlp_forward), id="width 1"),
]
every_model = pytest.mark.parametrize("row", MODELS)


def load(model, seed=0):
    module = model.module(DIM)
    module.load_state_dict({k: torch.from_numpy(v) for k, v in model.initial_weights(DIM, seed).items()})
    return module


@every_model
def test_a_model_keeps_its_protocol(row):
    assert isinstance(row.model, Model)


@every_model
def test_the_parameters_are_those_of_the_module(row):
    stated = [(p.name, p.shape) for p in row.model.parameters(DIM)]
    assert stated == [(name, tuple(value.shape)) for name, value in row.model.module(DIM).named_parameters()]
    assert not dict(row.model.module(DIM).named_buffers())


@every_model
def test_initial_weights_are_float32_of_the_stated_names_and_shapes(row):
    weights = row.model.initial_weights(DIM, 0)
    assert {k: (v.shape, v.dtype) for k, v in weights.items()} == {
        p.name: (p.shape, np.float32) for p in row.model.parameters(DIM)
    }


@every_model
def test_exactly_one_weight_reads_out_and_every_vector_is_a_bias(row):
    parameters = row.model.parameters(DIM)
    (readout,) = (p for p in parameters if p.role is Role.READOUT)
    assert readout.shape[0] == 1
    assert readout.layer == max(p.layer for p in parameters)
    assert all((p.role is Role.BIAS) == (len(p.shape) == 1) for p in parameters)
    assert all(p.fan_in == p.shape[-1] for p in parameters if p.role is not Role.BIAS)


@every_model
def test_initial_weights_are_decided_by_the_seed_alone(row):
    one, again, other = (row.model.initial_weights(DIM, seed) for seed in (3, 3, 4))
    for name, value in one.items():
        assert np.array_equal(value, again[name])
        assert not np.array_equal(value, other[name])


@every_model
def test_no_two_parameters_share_their_numbers(row):
    weights = row.model.initial_weights(DIM, 0)
    firsts = [
        float(value.ravel()[0]) * p.fan_in**0.5
        for p, value in zip(row.model.parameters(DIM), weights.values(), strict=True)
    ]
    assert len({round(v, 5) for v in firsts}) == len(firsts)


@every_model
def test_the_forward_pass_is_the_stated_formula(row):
    x = np.random.default_rng(0).standard_normal((40, DIM)).astype(np.float32)
    with torch.no_grad():
        prediction = load(row.model)(torch.from_numpy(x)).numpy()
    assert prediction.shape == (40,)
    assert prediction.dtype == np.float32
    expected = row.forward(row.model, row.model.initial_weights(DIM, 0), x)
    np.testing.assert_allclose(prediction, expected, rtol=1e-5, atol=1e-6)


@every_model
def test_building_a_module_does_not_touch_the_global_generator(row):
    before = torch.get_rng_state()
    row.model.module(DIM)
    assert torch.equal(torch.get_rng_state(), before)


@every_model
def test_a_model_survives_json(row):
    assert decode(json.loads(json.dumps(encode(row.model)))) == row.model


@pytest.mark.parametrize(
    ("depth", "roles"),
    [(1, ["readout"]), (2, ["input", "readout"]), (4, ["input", "hidden", "hidden", "readout"])],
)
def test_the_layers_of_an_mlp_have_their_roles(depth, roles):
    assert [p.role for p in MLP(depth=depth, bias=False).parameters(DIM)] == roles
    with_bias = MLP(depth=depth).parameters(DIM)
    assert [p.role for p in with_bias] == [role for weight in roles for role in (weight, "bias")]
    assert [p.layer for p in with_bias] == [layer for i in range(depth) for layer in (i, i)]


def test_an_mlp_has_the_stated_shapes():
    shapes = {p.name: p.shape for p in MLP(width=5, depth=3).parameters(2)}
    assert shapes == {
        "layers.0.weight": (5, 2),
        "layers.0.bias": (5,),
        "layers.1.weight": (5, 5),
        "layers.1.bias": (5,),
        "layers.2.weight": (1, 5),
        "layers.2.bias": (1,),
    }


@pytest.mark.parametrize("name", ["layers.0.weight", "layers.1.weight", "layers.0.bias", "layers.2.bias"])
def test_the_default_initialisation_is_that_of_torch_linear(name):
    model = MLP(width=40, depth=3)
    (parameter,) = (p for p in model.parameters(10) if p.name == name)
    ours = np.concatenate([model.initial_weights(10, seed)[name].ravel() for seed in range(200)])
    bound = parameter.fan_in**-0.5
    assert np.abs(ours).max() <= bound
    assert stats.kstest(ours, stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        linears = [torch.nn.Linear(parameter.fan_in, parameter.shape[0]) for _ in range(200)]
    theirs = np.concatenate([getattr(m, name.split(".")[-1]).detach().numpy().ravel() for m in linears])
    assert stats.ks_2samp(ours, theirs).pvalue > 1e-3


@pytest.mark.parametrize("name", ["layers.0.weight", "layers.1.weight", "layers.0.bias"])
def test_the_gaussian_initialisation_has_variance_one_over_fan_in(name):
    model = MLP(width=40, depth=3, init=Init.GAUSSIAN)
    (parameter,) = (p for p in model.parameters(10) if p.name == name)
    values = np.concatenate([model.initial_weights(10, seed)[name].ravel() for seed in range(200)])
    assert stats.kstest(values * parameter.fan_in**0.5, "norm").pvalue > 1e-3
    np.testing.assert_allclose(values.std(), parameter.fan_in**-0.5, rtol=5 / np.sqrt(2 * len(values)))


def test_bias_or_not_the_weights_begin_the_same():
    with_bias, without = MLP(8).initial_weights(DIM, 0), MLP(8, bias=False).initial_weights(DIM, 0)
    assert all(np.array_equal(value, with_bias[name]) for name, value in without.items())


def test_names_of_activations_and_initialisations_serve_as_well():
    assert MLP(activation="gelu", init="gaussian") == MLP(activation=Activation.GELU, init=Init.GAUSSIAN)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MLP(width=-3), "width=-3"),
        (lambda: MLP(width=2.5), r"width=2\.5"),
        (lambda: MLP(depth=0), "depth=0"),
        (lambda: MLP(activation="rellu"), "'rellu'.*relu, gelu, sigmoid, quadratic"),
        (lambda: MLP(init="xavier"), "'xavier'.*torch_default, gaussian"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()
