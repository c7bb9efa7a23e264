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
from headstart.models import MLP, Model, Readout, Signs, Symbols, Transformer, Vectors
from headstart.models.mlp import Activation, Init
from headstart.run import decode, encode

DIM = 8


@dataclass(frozen=True)
class Row:
    """A model, and its forward pass written out in NumPy: (model, weights, x) to predictions, in float64."""

    model: Model
    forward: Callable
    symbols: int | None = None  # inputs are whole numbers below this; None: any numbers; 0: signs

    def inputs(self, num):
        """Inputs that the model can read, float32[num, DIM]."""
        rng = np.random.default_rng(0)
        if self.symbols is None:
            return rng.standard_normal((num, DIM)).astype(np.float32)
        x = rng.integers(0, self.symbols or 2, (num, DIM)).astype(np.float32)
        return x if self.symbols else 1 - 2 * x


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


def transformer_forward(model, weights, x):
    """One sample, one head, one token at a time."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}

    def linear(name, v):
        return w[f"{name}.weight"] @ v + w.get(f"{name}.bias", 0)

    def norm(name, v):
        return v / np.sqrt(np.mean(v**2) + 1e-6) * w[f"{name}.scale"] if f"{name}.scale" in w else v

    activation = {"relu": lambda z: np.maximum(z, 0), "gelu": lambda z: z * (1 + special.erf(z / np.sqrt(2))) / 2}
    size = model.width // model.heads
    out = []
    for sample in x.astype(np.float64):
        if isinstance(model.tokens, Signs):
            features = [np.array([s > 0, s < 0]) for s in sample]
        elif isinstance(model.tokens, Symbols):
            features = [np.eye(model.tokens.count)[int(s)] for s in sample]
        else:
            features = sample.reshape(-1, model.tokens.size)
        h = [w["embedding.weight"] @ f + p for f, p in zip(features, w["position.weight"], strict=True)]
        for i in range(model.depth):
            name, attended = f"blocks.{i}", []
            inner = [norm(f"{name}.attention_norm", v) for v in h]
            q, k, v = ([linear(f"{name}.{part}", t) for t in inner] for part in ("query", "key", "value"))
            for t in range(len(h)):
                seen, heads = range(t + 1) if model.causal else range(len(h)), []
                for head in range(model.heads):
                    part = slice(head * size, (head + 1) * size)
                    here = norm(f"{name}.query_norm", q[t][part])
                    logits = [here @ norm(f"{name}.key_norm", k[s][part]) / np.sqrt(size) for s in seen]
                    shares = np.exp(logits) / np.sum(np.exp(logits))
                    heads.append(sum(share * v[s][part] for share, s in zip(shares, seen, strict=True)))
                attended.append(h[t] + linear(f"{name}.projection", np.concatenate(heads)))
            h = [
                t
                + linear(
                    f"{name}.down", activation[model.activation](linear(f"{name}.up", norm(f"{name}.mlp_norm", t)))
                )
                for t in attended
            ]
        h = [norm("norm", t) for t in h]
        out.append(linear("readout", h[-1] if model.readout is Readout.LAST else np.mean(h, axis=0)))
    return np.array(out)[:, 0] if model.num_outputs == 1 else np.array(out)


ENCODER = Transformer(12, heads=3, mlp_width=10)
DECODER = Transformer(8, depth=3, heads=2, tokens=Symbols(5), causal=True, readout=Readout.LAST, num_outputs=6)
NORMED = Transformer(8, heads=2, tokens=Vectors(2), pre_norm=True, qk_norm=True, activation=Activation.GELU)
TRANSFORMERS = [
    pytest.param(Row(ENCODER, transformer_forward, symbols=0), id="encoder"),
    pytest.param(Row(Transformer(8, depth=1, heads=1, bias=False, causal=True), transformer_forward, 0), id="decoder"),
    pytest.param(Row(DECODER, transformer_forward, symbols=5), id="decoder of digits"),
    pytest.param(Row(NORMED, transformer_forward), id="normed encoder of vectors"),
    pytest.param(Row(Transformer(8, heads=2, tokens=Vectors(1), qk_norm=True), transformer_forward), id="scalars"),
    pytest.param(
        Row(Transformer(8, heads=2, tokens=Vectors(4), pre_norm=True, readout="last"), transformer_forward),
        id="encoder read at its last token",
    ),
]
MODELS = [
    *TRANSFORMERS,
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
    assert readout.shape[0] == getattr(row.model, "num_outputs", 1)
    assert readout.layer == max(p.layer for p in parameters)
    assert all((p.role in (Role.BIAS, Role.NORM)) == (len(p.shape) == 1) for p in parameters)
    weights = (p for p in parameters if p.role not in (Role.BIAS, Role.NORM, Role.POSITION))
    assert all(p.fan_in == p.shape[-1] for p in weights)


@every_model
def test_initial_weights_are_decided_by_the_seed_alone(row):
    one, again, other = (row.model.initial_weights(DIM, seed) for seed in (3, 3, 4))
    norms = {p.name for p in row.model.parameters(DIM) if p.role is Role.NORM}
    for name, value in one.items():
        assert np.array_equal(value, again[name])
        assert np.array_equal(value, other[name]) == (name in norms)


@every_model
def test_no_two_parameters_share_their_numbers(row):
    weights = row.model.initial_weights(DIM, 0)
    firsts = [
        float(value.ravel()[0]) * p.fan_in**0.5
        for p, value in zip(row.model.parameters(DIM), weights.values(), strict=True)
        if p.role is not Role.NORM
    ]
    assert len({round(v, 5) for v in firsts}) == len(firsts)


@every_model
def test_the_forward_pass_is_the_stated_formula(row):
    x, outputs = row.inputs(40), getattr(row.model, "num_outputs", 1)
    with torch.no_grad():
        prediction = load(row.model)(torch.from_numpy(x)).numpy()
    assert prediction.shape == ((40,) if outputs == 1 else (40, outputs))
    assert prediction.dtype == np.float32
    expected = row.forward(row.model, row.model.initial_weights(DIM, 0), x)
    np.testing.assert_allclose(prediction, expected, rtol=1e-4, atol=2e-6)


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
        (lambda: Transformer(width=10, heads=4), "width=10, heads=4.*divide"),
        (lambda: Transformer(readout="first"), "'first'.*mean, last"),
        (lambda: Transformer(tokens=Signs), r"tokens=.*Signs\(\)"),
        (lambda: Transformer(depth=0), "depth=0"),
        (lambda: Transformer(mlp_width=0), "mlp_width=0"),
        (lambda: Symbols(0), "count=0"),
        (lambda: Transformer(tokens=Vectors(3)).parameters(8), "Vectors.size=3.: 8 coordinates do not split"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()
