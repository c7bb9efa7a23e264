"""What every model must do. A new model joins by adding one row to MODELS."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy import special, stats

from headstart.core.encoding import decode, encode
from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.signature import Signature
from headstart.models import (
    MLP,
    AttentionOnly,
    Binary,
    ConvNet,
    Embedding,
    FixedTable,
    Fourier,
    Model,
    OneHot,
    Readout,
    ResNet,
    Signs,
    ThresholdFilter,
    Transformer,
    Vectors,
    WideResNet,
)
from headstart.models.mlp import Activation, Init

DIM = 8
REAL, TEN = Signature((DIM,)), Signature((10,))


@dataclass(frozen=True)
class Row:
    """A model, and its forward pass written out in NumPy: (model, signature, weights, x) to predictions, in float64."""

    model: Model
    forward: Callable
    signature: Signature = REAL
    signs: bool = False

    def inputs(self, num):
        """Inputs that the model can read, [num, *inputs]: symbols, signs or any numbers."""
        rng, shape = np.random.default_rng(0), (num, *self.signature.inputs)
        if self.signature.symbols:
            return rng.integers(0, self.signature.symbols, shape)
        return (rng.choice([-1, 1], shape) if self.signs else rng.standard_normal(shape)).astype(np.float32)

    @property
    def parameters(self):
        """The parameters for the signature."""
        return self.model.parameters(self.signature)

    def initial_weights(self, seed=0):
        """The weights for the signature."""
        return self.model.initial_weights(self.signature, seed)

    def load(self):
        """The module with its initial weights."""
        module = self.model.module(self.signature)
        weights = {k: torch.from_numpy(v) for k, v in self.initial_weights().items()}
        module.load_state_dict({**dict(module.named_buffers()), **weights})
        return module


def mlp_forward(model, signature, weights, x):
    activation = {
        "relu": lambda z: np.maximum(z, 0),
        "gelu": lambda z: z * (1 + special.erf(z / np.sqrt(2))) / 2,
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        "quadratic": lambda z: z * z,
        "erf": lambda z: special.erf(z / np.sqrt(2)),
        "tanh": np.tanh,
        "he2": lambda z: z**2 - 1,
        "he3": lambda z: z**3 - 3 * z,
        "he4": lambda z: z**4 - 6 * z**2 + 3,
    }[model.activation]
    h = x.astype(np.float64).reshape(len(x), -1)
    if model.embedding:
        table = weights["embedding.weight"].astype(np.float64)
        if "embedding.map" in weights:
            table = table @ weights["embedding.map"].astype(np.float64).T
        if signature.symbols:
            h = np.array([np.concatenate([table[symbol] for symbol in sample.ravel()]) for sample in x])
        else:
            h = h @ table
    for layer in range(model.depth):
        h = h @ weights[f"layers.{layer}.weight"].astype(np.float64).T
        if model.bias:
            h = h + weights[f"layers.{layer}.bias"]
        if layer < model.depth - 1:
            h = activation(h)
    return h.reshape(len(x), *signature.outputs)


def transformer_forward(model, signature, weights, x):
    """One sample, one head, one token at a time."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}

    def linear(name, v):
        return w[f"{name}.weight"] @ v + w.get(f"{name}.bias", 0)

    def norm(name, v, there=True):
        if not there or f"{name}.scale" not in w:
            return v
        centred = v - np.mean(v) if f"{name}.shift" in w else v
        return centred / np.sqrt(np.mean(centred**2) + 1e-6) * w[f"{name}.scale"] + w.get(f"{name}.shift", 0)

    before, behind = model.pre_norm, model.post_norm
    activation = {"relu": lambda z: np.maximum(z, 0), "gelu": lambda z: z * (1 + special.erf(z / np.sqrt(2))) / 2}
    size = model.width // model.heads
    out = []
    for sample in x:
        if signature.symbols:
            embedded = [w.get("embedding.map", np.eye(model.width)) @ w["embedding.weight"][s] for s in sample]
        elif isinstance(model.tokens, Signs):
            embedded = [w["embedding.weight"] @ np.array([s > 0, s < 0]) for s in sample]
        else:
            embedded = [w["embedding.weight"] @ f for f in sample.astype(np.float64).reshape(-1, model.tokens.size)]
        h = [norm("embedding_norm", e + p) for e, p in zip(embedded, w["position.weight"], strict=True)]
        for i in range(model.depth):
            name, attended = f"blocks.{i}", []
            inner = [norm(f"{name}.attention_norm", v, before) for v in h]
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
            h = [norm(f"{name}.attention_norm", t, behind) for t in attended]
            up = [linear(f"{name}.up", norm(f"{name}.mlp_norm", t, before)) for t in h]
            down = [linear(f"{name}.down", activation[model.activation](u)) for u in up]
            h = [norm(f"{name}.mlp_norm", t + d, behind) for t, d in zip(h, down, strict=True)]
        h = [norm("norm", t) for t in h]
        if model.tied:
            w["readout.weight"] = w["embedding.weight"] @ w.get("embedding.map", np.eye(model.width)).T
        read = {Readout.LAST: h[-1:], Readout.MEAN: [np.mean(h, axis=0)], Readout.TOKENS: h}[model.readout]
        out.append([linear("readout", t) for t in read])
    return np.array(out).reshape(len(x), *signature.outputs)


def attention_only_forward(model, signature, weights, x):
    """One sample at a time, as matrices of one-hot columns."""
    w, v = (weights[f"{name}.weight"].astype(np.float64) for name in ("attention", "value"))
    out = []
    for sample in x:
        one_hot = np.eye(signature.symbols)[:, sample]
        logits = one_hot.T @ w @ one_hot
        out.append((v @ one_hot @ (np.exp(logits) / np.exp(logits).sum(axis=0))).T)
    return np.array(out)


def convolved(x, weight, stride):
    """[n, in, height, width] by [out, in, k, k], zeros around, position by position."""
    k = weight.shape[-1]
    padded = np.pad(x, ((0, 0), (0, 0), (k // 2, k // 2), (k // 2, k // 2)))
    rows, columns = (range(0, side, stride) for side in x.shape[2:])
    return np.array([[np.einsum("ncij,ocij->no", padded[:, :, r : r + k, c : c + k], weight) for c in columns]
                     for r in rows]).transpose(2, 3, 0, 1)  # fmt: skip


def normed(x, name, weights):
    """By the mean and variance of the batch, as in training."""
    mean, variance = x.mean(axis=(0, 2, 3), keepdims=True), x.var(axis=(0, 2, 3), keepdims=True)
    scale, shift = (weights[f"{name}norm.{part}"][:, None, None] for part in ("scale", "shift"))
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + shift


def convnet_forward(model, signature, weights, x):
    h = x.astype(np.float64)
    for i in range(model.depth):
        h = np.maximum(
            normed(convolved(h, weights[f"blocks.{i}.weight"], 1 if i == 0 else 2), f"blocks.{i}.", weights), 0
        )
    return h.mean(axis=(2, 3)) @ weights["readout.weight"].T + weights["readout.bias"]


def resnet_forward(model, signature, weights, x):
    h = np.maximum(normed(convolved(x.astype(np.float64), weights["stem.weight"], 1), "stem.", weights), 0)
    each = (model.depth - 2) // 6
    for block in range(3 * each):
        first, second = (f"blocks.{block}.{part}" for part in ("first", "second"))
        stride = 2 if block in (each, 2 * each) else 1
        inner = np.maximum(normed(convolved(h, weights[f"{first}.weight"], stride), f"{first}.", weights), 0)
        inner = normed(convolved(inner, weights[f"{second}.weight"], 1), f"{second}.", weights)
        more = (inner.shape[1] - h.shape[1]) // 2
        h = np.maximum(inner + np.pad(h[:, :, ::stride, ::stride], ((0, 0), (more, more), (0, 0), (0, 0))), 0)
    return h.mean(axis=(2, 3)) @ weights["readout.weight"].T + weights["readout.bias"]


def wide_forward(model, signature, weights, x):
    h = convolved(x.astype(np.float64), weights["stem.weight"], 1)
    each = (model.depth - 4) // 6
    for block in range(3 * each):
        name, stride = f"blocks.{block}", 2 if block in (each, 2 * each) else 1
        inner = h
        for part, by in (("first", stride), ("second", 1)):
            active = np.maximum(normed(inner, f"{name}.{part}.", weights), 0)
            inner = convolved(active, weights[f"{name}.{part}.weight"], by)
        h = inner + (convolved(h, weights[f"{name}.shortcut.weight"], stride) if block % each == 0 else h)
    h = np.maximum(normed(h, "", weights), 0)
    return h.mean(axis=(2, 3)) @ weights["readout.weight"].T + weights["readout.bias"]


ENCODER = Transformer(12, heads=3, mlp_width=10)
DECODER = Transformer(8, depth=3, heads=2, causal=True, readout=Readout.LAST)
NORMED = Transformer(8, heads=2, tokens=Vectors(2), pre_norm=True, qk_norm=True, activation=Activation.GELU)
CAUSAL = Transformer(8, depth=1, heads=1, bias=False, causal=True)
PAIRS = Transformer(8, depth=3, heads=2, causal=True, readout=Readout.LAST, bias=False)
LOW_RANK = Transformer(8, heads=2, causal=True, pre_norm=True, qk_norm=True, embedding_rank=2)
TOKENS = Transformer(8, heads=2, causal=True, readout="tokens", pre_norm=True)
DIGITS, LABELLED = Signature((DIM,), symbols=5, outputs=(6,)), Signature((DIM,), symbols=5, outputs=(DIM, 3))
PAIR, IMAGE = Signature((2,), symbols=7, outputs=(7,)), Signature((2, 3, 4), outputs=(3,))
# A language model: one score per symbol, for every token.
SPOKEN = Signature((5,), symbols=7, outputs=(5, 7))
POST = Transformer(
    8,
    heads=2,
    causal=True,
    readout="tokens",
    activation="gelu",
    norm="layer",
    post_norm=True,
    positions="sinusoidal",
    tied=True,
    weight_std=0.3,
)
TRANSFORMERS = [
    pytest.param(Row(ENCODER, transformer_forward, signs=True), id="encoder"),
    pytest.param(Row(CAUSAL, transformer_forward, signs=True), id="decoder"),
    pytest.param(Row(DECODER, transformer_forward, DIGITS), id="decoder of digits"),
    pytest.param(Row(Transformer(8, heads=2), transformer_forward, DIGITS), id="encoder of digits"),
    pytest.param(Row(PAIRS, transformer_forward, PAIR), id="decoder of two symbols"),
    pytest.param(Row(replace(PAIRS, embedding_rank=3), transformer_forward, PAIR), id="decoder on a table of low rank"),
    pytest.param(Row(LOW_RANK, transformer_forward, DIGITS), id="normed decoder on a table of low rank"),
    pytest.param(Row(TOKENS, transformer_forward, LABELLED), id="a label for every symbol"),
    pytest.param(
        Row(
            Transformer(8, heads=2, tokens=Vectors(2), readout="tokens"),
            transformer_forward,
            Signature((4, 2), outputs=(4, 3)),
        ),
        id="a label for every vector",
    ),
    pytest.param(Row(NORMED, transformer_forward), id="normed encoder of vectors"),
    pytest.param(Row(POST, transformer_forward, SPOKEN), id="norms behind every addition, and a tied readout"),
    pytest.param(
        Row(replace(POST, norm="rms", bias=False, embedding_rank=3), transformer_forward, SPOKEN),
        id="a tied readout on a table of low rank",
    ),
    pytest.param(
        Row(replace(POST, post_norm=False, pre_norm=True, tied=False), transformer_forward, SPOKEN),
        id="LayerNorm before every layer",
    ),
    pytest.param(
        Row(replace(PAIRS, norm="layer", post_norm=True, positions="sinusoidal"), transformer_forward, PAIR),
        id="decoder of two symbols with norms behind",
    ),
    pytest.param(Row(Transformer(8, heads=2, tokens=Vectors(1), qk_norm=True), transformer_forward), id="scalars"),
    pytest.param(
        Row(Transformer(8, heads=2, tokens=Vectors(4), pre_norm=True, readout="last"), transformer_forward),
        id="encoder read at its last token",
    ),
]
CONVOLUTIONAL = [
    pytest.param(Row(ConvNet(4), convnet_forward, Signature((2, 7, 6), outputs=(3,))), id="convolutions"),
    pytest.param(Row(ConvNet(3, depth=1), convnet_forward, Signature((1, 4, 4), outputs=(2,))), id="one convolution"),
    pytest.param(Row(ResNet(14, 2), resnet_forward, Signature((3, 8, 7), outputs=(4,))), id="residual"),
]


def threshold_filter_forward(model, signature, weights, x):
    z = x.astype(np.float64) @ weights["filter.weight"][0].astype(np.float64)
    b = float(weights.get("threshold.bias", [0.0])[0])
    return (np.maximum(z + b, 0) - np.maximum(b - z, 0)).sum(axis=1)


MODELS = [
    pytest.param(Row(ThresholdFilter(0.5), threshold_filter_forward, Signature((6, 4))), id="threshold filter"),
    pytest.param(Row(ThresholdFilter(0.5, False), threshold_filter_forward, Signature((6, 4))), id="linear filter"),
    *TRANSFORMERS,
    pytest.param(Row(AttentionOnly(0.7, 0.5), attention_only_forward, LABELLED), id="attention only"),
    pytest.param(
        Row(AttentionOnly(0.7, 0.1, 3.0, (2, 0, 1, 2, 0)), attention_only_forward, LABELLED), id="attention near P"
    ),
    *CONVOLUTIONAL,
    pytest.param(Row(WideResNet(10), wide_forward, Signature((3, 5, 6), outputs=(4,))), id="wide residual"),
    pytest.param(Row(WideResNet(16), wide_forward, Signature((1, 4, 4), outputs=(2,))), id="deep wide residual"),
    pytest.param(Row(MLP(), mlp_forward), id="mlp"),
    pytest.param(Row(MLP(16, activation=Activation.GELU), mlp_forward), id="gelu"),
    pytest.param(Row(MLP(16, activation=Activation.SIGMOID), mlp_forward), id="sigmoid"),
    pytest.param(Row(MLP(16, activation=Activation.QUADRATIC), mlp_forward), id="quadratic"),
    *(pytest.param(Row(MLP(16, activation=a), mlp_forward), id=a) for a in ("erf", "tanh", "he2", "he3", "he4")),
    pytest.param(Row(MLP(5, activation="he3", bias=False, init="committee"), mlp_forward), id="committee"),
    pytest.param(Row(MLP(5, depth=3, init="committee"), mlp_forward), id="deep committee"),
    pytest.param(Row(MLP(depth=1), mlp_forward), id="depth 1"),
    pytest.param(Row(MLP(depth=1, bias=False), mlp_forward), id="depth 1 without bias"),
    pytest.param(Row(MLP(12, depth=4), mlp_forward), id="depth 4"),
    pytest.param(Row(MLP(12, depth=8, bias=False, init=Init.GAUSSIAN), mlp_forward), id="depth 8"),
    pytest.param(Row(MLP(16, bias=False), mlp_forward), id="without bias"),
    pytest.param(Row(MLP(16, init=Init.GAUSSIAN), mlp_forward), id="gaussian"),
    pytest.param(Row(MLP(1), mlp_forward), id="width 1"),
    pytest.param(Row(MLP(12), mlp_forward, Signature((DIM,), outputs=(5,))), id="several outputs"),
    pytest.param(Row(MLP(12), mlp_forward, Signature((DIM,), outputs=(1,))), id="one score"),
    pytest.param(Row(MLP(12), mlp_forward, Signature((2, 3, 4), outputs=(3, 2))), id="an image to rows of scores"),
    pytest.param(Row(MLP(12, embedding=Embedding(4)), mlp_forward, PAIR), id="embedding"),
    pytest.param(Row(MLP(12, 3, embedding=Embedding(4, fixed=True)), mlp_forward, PAIR), id="fixed embedding"),
    pytest.param(
        Row(MLP(depth=1, embedding=Embedding(3, std=0.1)), mlp_forward, Signature((2, 2), symbols=5)),
        id="linear in its embedding",
    ),
    pytest.param(Row(MLP(12, embedding=Embedding(6, rank=2)), mlp_forward, PAIR), id="embedding of low rank"),
    pytest.param(Row(MLP(12, 3, embedding=Embedding(5)), mlp_forward), id="a map of real inputs"),
    pytest.param(Row(MLP(12, embedding=Embedding(5, rank=3)), mlp_forward, IMAGE), id="a map of low rank"),
    pytest.param(Row(MLP(12, bias=False, embedding=OneHot()), mlp_forward, PAIR), id="one-hot"),
    pytest.param(Row(MLP(12, embedding=Binary()), mlp_forward, PAIR), id="binary"),
    pytest.param(Row(MLP(12, embedding=Fourier(3)), mlp_forward, PAIR), id="fourier"),
    pytest.param(
        Row(MLP(4, embedding=Embedding(3)), mlp_forward, Signature((2,), symbols=1025)), id="more symbols than samples"
    ),
]
every_model = pytest.mark.parametrize("row", MODELS)


@every_model
def test_a_model_keeps_its_protocol(row):
    assert isinstance(row.model, Model)


@every_model
def test_the_parameters_are_those_of_the_module(row):
    stated, module = [(p.name, p.shape) for p in row.parameters], row.model.module(row.signature)
    assert stated == [(name, tuple(value.shape)) for name, value in module.named_parameters()]
    running = {"running_mean", "running_var"} if any(".norm.shift" in p.name for p in row.parameters) else set()
    assert {name.rpartition(".")[2] for name, _ in module.named_buffers()} == running


@every_model
def test_initial_weights_are_float32_of_the_stated_names_and_shapes(row):
    weights = row.initial_weights()
    assert {k: (v.shape, v.dtype) for k, v in weights.items()} == {
        p.name: (p.shape, np.float32) for p in row.parameters
    }


@every_model
def test_exactly_one_weight_reads_out_and_every_vector_is_a_bias(row):
    parameters = row.parameters
    if getattr(row.model, "tied", False):
        assert not any(p.role is Role.READOUT for p in parameters)
        readout = next(p for p in parameters if p.role is Role.EMBEDDING)
    else:
        (readout,) = (p for p in parameters if p.role is Role.READOUT)
        assert readout.layer == max(p.layer for p in parameters)
    each = isinstance(row.model, AttentionOnly) or getattr(row.model, "readout", None) is Readout.TOKENS
    assert readout.shape[0] == (row.signature.outputs[-1] if each else row.signature.num_outputs)
    assert all((p.role in (Role.BIAS, Role.NORM)) == (len(p.shape) == 1) for p in parameters)
    weights = (p for p in parameters if p.role not in (Role.BIAS, Role.NORM, Role.POSITION))
    # A table is [symbols, width]: a symbol picks one of so many rows. So is an MLP's map of real inputs.
    table = Role.EMBEDDING if row.signature.symbols or isinstance(row.model, MLP) else None
    assert all(p.fan_in == (p.shape[0] if p.role is table else np.prod(p.shape[1:])) for p in weights)


@every_model
def test_initial_weights_are_decided_by_the_seed_alone(row):
    one, again, other = (row.initial_weights(seed) for seed in (3, 3, 4))
    given = {p.name for p in row.parameters if p.role is Role.NORM or (p.fixed and p.role is Role.POSITION)}
    if getattr(row.model, "weight_std", None):
        given |= {p.name for p in row.parameters if p.role is Role.BIAS}
    if isinstance(row.model, ThresholdFilter):
        given |= {p.name for p in row.parameters if p.role is not Role.INPUT}
    if isinstance(getattr(row.model, "embedding", None), FixedTable):
        given.add("embedding.weight")
    if getattr(row.model, "init", None) is Init.COMMITTEE:
        given |= {p.name for p in row.parameters if p.layer == row.model.depth - 1}
    for name, value in one.items():
        assert np.array_equal(value, again[name])
        assert np.array_equal(value, other[name]) == (name in given)


@every_model
def test_no_two_parameters_share_their_numbers(row):
    weights = row.initial_weights()
    firsts = [
        float(value.ravel()[0]) * p.fan_in**0.5
        for p, value in zip(row.parameters, weights.values(), strict=True)
        if p.role is not Role.NORM and value.any()
    ]
    assert len({round(v, 5) for v in firsts}) == len(firsts)


@every_model
def test_the_forward_pass_is_the_stated_formula(row):
    x = row.inputs(40)
    with torch.no_grad():
        prediction = row.load()(torch.from_numpy(x)).numpy()
    assert prediction.shape == (40, *row.signature.outputs)
    assert prediction.dtype == np.float32
    expected = row.forward(row.model, row.signature, row.initial_weights(), x)
    np.testing.assert_allclose(prediction, expected, rtol=1e-4, atol=2e-6)


@every_model
def test_building_a_module_does_not_touch_the_global_generator(row):
    before = torch.get_rng_state()
    row.model.module(row.signature)
    assert torch.equal(torch.get_rng_state(), before)


@every_model
def test_a_model_survives_json(row):
    assert decode(json.loads(json.dumps(encode(row.model)))) == row.model


@pytest.mark.parametrize(
    ("depth", "roles"),
    [(1, ["readout"]), (2, ["input", "readout"]), (4, ["input", "hidden", "hidden", "readout"])],
)
def test_the_layers_of_an_mlp_have_their_roles(depth, roles):
    assert [p.role for p in MLP(depth=depth, bias=False).parameters(REAL)] == roles
    with_bias = MLP(depth=depth).parameters(REAL)
    assert [p.role for p in with_bias] == [role for weight in roles for role in (weight, "bias")]
    assert [p.layer for p in with_bias] == [layer for i in range(depth) for layer in (i, i)]


def test_an_mlp_has_the_stated_shapes():
    shapes = {p.name: p.shape for p in MLP(width=5, depth=3).parameters(Signature((2,)))}
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
    (parameter,) = (p for p in model.parameters(TEN) if p.name == name)
    ours = np.concatenate([model.initial_weights(TEN, seed)[name].ravel() for seed in range(200)])
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
    (parameter,) = (p for p in model.parameters(TEN) if p.name == name)
    values = np.concatenate([model.initial_weights(TEN, seed)[name].ravel() for seed in range(200)])
    assert stats.kstest(values * parameter.fan_in**0.5, "norm").pvalue > 1e-3
    np.testing.assert_allclose(values.std(), parameter.fan_in**-0.5, rtol=5 / np.sqrt(2 * len(values)))


def test_bias_or_not_the_weights_begin_the_same():
    with_bias, without = MLP(8).initial_weights(REAL, 0), MLP(8, bias=False).initial_weights(REAL, 0)
    assert all(np.array_equal(value, with_bias[name]) for name, value in without.items())


def test_the_layers_behind_a_table_are_counted_from_it_and_a_fixed_table_alone_is_not_trained():
    for fixed in (True, False):
        parameters = MLP(depth=3, bias=False, embedding=Embedding(4, fixed=fixed)).parameters(PAIR)
        assert [(p.role, p.layer) for p in parameters] == [
            ("embedding", 0),
            ("hidden", 1),
            ("hidden", 2),
            ("readout", 3),
        ]
        assert [p.fixed for p in parameters] == [fixed, False, False, False]
        assert parameters[1].fan_in == 2 * 4


def test_a_table_begins_normal_with_its_scale_whatever_stands_behind_it():
    tables = [
        MLP(width, depth, embedding=Embedding(40, std, fixed)).initial_weights(PAIR, 3)["embedding.weight"]
        for width, depth, std, fixed in ((8, 2, 1.0, False), (9, 3, 1.0, True), (8, 2, 0.5, False))
    ]
    assert np.array_equal(tables[0], tables[1])
    assert np.array_equal(tables[0], 2 * tables[2])
    values = np.concatenate(
        [MLP(embedding=Embedding(40)).initial_weights(PAIR, seed)["embedding.weight"].ravel() for seed in range(50)]
    )
    assert stats.kstest(values, "norm").pvalue > 1e-3


def test_a_table_of_low_rank_has_a_map_in_the_layer_of_the_table_and_only_the_table_may_be_fixed():
    table, rows, first, _ = MLP(8, bias=False, embedding=Embedding(6, fixed=True, rank=2)).parameters(PAIR)
    assert (table.shape, rows.shape, first.shape) == ((7, 2), (6, 2), (8, 12))
    assert [(p.role, p.layer, p.fixed) for p in (table, rows, first)] == [
        ("embedding", 0, True),
        ("hidden", 0, False),
        ("hidden", 1, False),
    ]


def test_given_tables_say_what_they_should_of_a_number_in_rows_of_length_one():
    def table(part, symbols=113):
        return part.initial_weights(Signature((2,), symbols=symbols), 0)["embedding.weight"]

    assert np.array_equal(table(OneHot()), np.eye(113))
    binary = table(Binary())
    assert binary.shape == (113, 8)  # ceil(log2(112)) + 1 places
    assert np.array_equal(np.flatnonzero(binary[6]), [5, 6])  # 6 = 110 in binary
    waves = table(Fourier()) * np.sqrt(7)
    assert waves.shape == (113, 14)
    for place, prime in enumerate((2, 3, 5, 7, 11, 13, 17)):
        np.testing.assert_allclose(waves[40, 2 * place], np.cos(2 * np.pi * prime * 40 / 113), atol=1e-5)
        np.testing.assert_allclose(waves[40, 2 * place + 1], np.sin(2 * np.pi * prime * 40 / 113), atol=1e-5)
    for part in (OneHot(), Binary(), Fourier()):
        np.testing.assert_allclose(np.linalg.norm(table(part)[1:], axis=1), 1, rtol=1e-6)


def test_a_table_or_several_outputs_leave_the_first_layer_of_the_same_shape_as_it_was():
    plain, table = MLP(16).initial_weights(REAL, 0), MLP(16, embedding=Embedding(4)).initial_weights(PAIR, 0)
    several = MLP(16).initial_weights(Signature((DIM,), outputs=(3,)), 0)
    for other in (table, several):
        assert np.array_equal(plain["layers.0.weight"], other["layers.0.weight"])


def test_a_committee_takes_the_mean_of_gaussian_neurons():
    model, gaussian = MLP(5, depth=3, init="committee"), MLP(5, depth=3, init="gaussian")
    ours, theirs = model.initial_weights(REAL, 3), gaussian.initial_weights(REAL, 3)
    assert np.array_equal(ours["layers.2.weight"], np.full((1, 5), 0.2, dtype=np.float32))
    assert ours["layers.2.bias"] == 0
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours if not name.startswith("layers.2"))


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
        (lambda: Transformer(embedding_rank=0), "embedding_rank=0"),
        (lambda: Transformer(embedding_rank=4).parameters(REAL), "embedding_rank=4.: .*real numbers.*leave"),
        (lambda: MLP(embedding=4), r"embedding=4.*Embedding\(dim=\.\.\.\)"),
        (lambda: Embedding(0), "dim=0"),
        (lambda: Embedding(4, std=0), "std=0"),
        (lambda: MLP().parameters(PAIR), r"7 symbols; look them up by MLP\(embedding=Embedding"),
        (lambda: Embedding(4, rank=0), "rank=0"),
        (lambda: MLP(embedding=OneHot()).parameters(REAL), r"OneHot\(\).*table of symbols.*real numbers"),
        (lambda: Fourier(0), "num_frequencies=0"),
        (lambda: Transformer(readout="tokens").parameters(DIGITS), r"readout='tokens'.*\(6,\).*8 tokens"),
        (lambda: Transformer().parameters(LABELLED), r"readout='mean'.*\(8, 3\).*readout='tokens'"),
        (lambda: Transformer(tokens=Vectors(3)).parameters(REAL), "Vectors.size=3.: 8 coordinates do not split"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()


@pytest.mark.parametrize("row", CONVOLUTIONAL)
def test_copies_of_a_network_side_by_side_do_not_mix(row):
    x, module = torch.from_numpy(row.inputs(12)), row.model.module(row.signature, copies=2)
    drawn = [{k: torch.from_numpy(v) for k, v in row.model.initial_weights(row.signature, s).items()} for s in (0, 1)]
    module.load_state_dict({k: torch.cat([drawn[0][k], drawn[1][k]]) for k in drawn[0]}, strict=False)
    for training in (True, False):  # running means have seen a batch by the second
        together = module.train(training)(torch.cat([x, 2 * x.flip(0)], dim=1))
        for k, inputs in enumerate((x, 2 * x.flip(0))):
            alone = row.model.module(row.signature).train(training)
            halves = {name: buffer.chunk(2)[k] for name, buffer in module.named_buffers()}
            alone.load_state_dict({**halves, **drawn[k]})
            torch.testing.assert_close(together[:, k], alone(inputs), rtol=1e-5, atol=1e-5)


def test_a_resnet_of_depth_20_has_as_many_weights_as_that_of_the_paper():
    parameters = ResNet().parameters(Signature((3, 32, 32), outputs=(10,)))
    assert sum(int(np.prod(p.shape)) for p in parameters) == 269_722
    convolutions = 6 * sum(int(np.prod(p.shape)) for p in parameters if p.role in (Role.INPUT, Role.HIDDEN))
    assert sum(p.flops or 0 for p in parameters) > 50 * convolutions


def test_wrn_10_10_has_7_convolutions_of_3_x_3_in_three_blocks():
    signature = Signature((3, 32, 32), outputs=(10,))
    shapes = [p.shape for p in WideResNet(10, 10).parameters(signature) if len(p.shape) == 4]
    assert [shape[0] for shape in shapes if shape[2] == 3] == [16, 160, 160, 320, 320, 640, 640]
    assert [shape[:2] for shape in shapes if shape[2] == 1] == [(160, 16), (320, 160), (640, 320)]
    assert sum(int(np.prod(p.shape)) for p in WideResNet().parameters(signature)) == 78_106


def test_the_depth_of_a_wide_resnet_is_6_n_and_4():
    with pytest.raises(HeadstartError, match=r"depth=12.*10"):
        WideResNet(12)


@pytest.mark.parametrize("model", [ConvNet(), ResNet(), WideResNet()])
def test_a_convolutional_network_asks_for_images(model):
    with pytest.raises(HeadstartError, match="flat=False"):
        model.parameters(REAL)


def test_the_depth_of_a_resnet_is_6_n_and_2():
    with pytest.raises(HeadstartError, match=r"depth=18.*20"):
        ResNet(18)
