"""Rates and initial scales by layer, name or role, on modules of anybody's."""

import itertools

import pytest
import torch
from torch import nn

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.methods import Scale, mup_groups, param_groups
from headstart.methods import roles as find_roles


def mlp(width=8, bias=True, depth=3, inputs=5, outputs=1):
    torch.manual_seed(width)  # how weights scale with the width is read off a few of them
    sizes = [inputs, *[width] * (depth - 1), outputs]
    layers = [nn.Linear(i, o, bias=bias) for i, o in itertools.pairwise(sizes)]
    return nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1])


class Attention(nn.Module):
    """A tiny language model with separate projections."""

    def __init__(self, width=8, tied=False):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, width), nn.Embedding(4, width)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.o_proj, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, 11, bias=False)
        if tied:
            self.head.weight = self.wte.weight


class Bare(nn.Module):
    """A tensor of its own, which may do anything."""

    def __init__(self, width=8):
        super().__init__()
        self.W, self.gain = nn.Parameter(torch.randn(5, width)), nn.Parameter(torch.ones(width))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(x @ self.W * self.gain)


class Functional(nn.Module):
    """A head that uses the embedding's tensor within forward, which nothing outside shows."""

    def __init__(self, width=8):
        super().__init__()
        self.wte = nn.Embedding(11, width)

    def forward(self, x):
        return self.wte(x) @ self.wte.weight.T


def roles(module):
    return {found.name: found.role for found in find_roles(module)}


def rates(groups):
    return {name: group["lr"] for group in groups for name in group["names"]}


def values(module):
    return {name: p.detach().clone() for name, p in module.named_parameters()}


def test_the_roles_of_an_mlp():
    assert roles(mlp()) == {
        "0.weight": "input",
        "0.bias": "bias",
        "2.weight": "hidden",
        "2.bias": "bias",
        "4.weight": "readout",
        "4.bias": "bias",
    }


def test_the_roles_of_a_transformer():
    found = roles(Attention())
    expected = {"wte": "embedding", "wpe": "position", "q_proj": "query", "k_proj": "key", "v_proj": "value"}
    expected |= {"o_proj": "projection", "norm": "norm", "up": "hidden", "down": "hidden", "head": "readout"}
    assert {name: found[f"{name}.weight"] for name in expected} == expected


def test_no_rules_are_one_group_at_the_rate():
    model = mlp()
    before = values(model)
    (group,) = param_groups(model, {}, lr=0.1)
    assert group["lr"] == 0.1
    assert [id(p) for p in group["params"]] == [id(p) for p in model.parameters()]
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_rules_by_role_layer_and_name_multiply():
    rules = {"first": 2.0, Role.READOUT: Scale(rate=3.0), 0: 5.0, "*.bias": 0.5, -1: 7.0}
    assert rates(param_groups(mlp(), rules, lr=1.0)) == {
        "0.weight": 10.0,
        "0.bias": 2.5,
        "2.weight": 1.0,
        "2.bias": 0.5,
        "4.weight": 21.0,
        "4.bias": 3.5,
    }


def test_queries_and_keys_have_a_word():
    found = rates(param_groups(Attention(), {"query_key": 3.6}, lr=1e-3))
    assert {name for name, lr in found.items() if lr > 1e-3} == {"q_proj.weight", "k_proj.weight"}


def test_initial_values_are_scaled_in_place_and_every_parameter_is_in_one_group():
    model = mlp()
    before = values(model)
    groups = param_groups(model, {"readout": Scale(init=4.0), "first": Scale(init=0.5, rate=2.0)}, lr=0.1)
    assert torch.equal(model[4].weight, 4 * before["4.weight"])
    assert torch.equal(model[0].weight, 0.5 * before["0.weight"])
    assert torch.equal(model[2].weight, before["2.weight"])
    assert sorted(name for group in groups for name in group["names"]) == sorted(before)
    optimizer = torch.optim.SGD(groups)
    model(torch.ones(2, 5)).sum().backward()
    moved = values(model)
    optimizer.step()
    assert torch.allclose(model[0].weight, moved["0.weight"] - 0.2 * model[0].weight.grad)
    assert torch.allclose(model[2].weight, moved["2.weight"] - 0.1 * model[2].weight.grad)


def test_a_frozen_parameter_is_in_no_group():
    model = mlp()
    model[0].weight.requires_grad_(False)
    assert "0.weight" not in rates(param_groups(model, {}, lr=0.1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: param_groups(mlp(), {"encoder.*": 2.0}, lr=1), r"'encoder\.\*' matches no parameter.*0\.weight"),
        (lambda: param_groups(mlp(), {"query_key": 2.0}, lr=1), "'query_key' matches no parameter; the roles here"),
        (
            lambda: param_groups(nn.MultiheadAttention(4, 2), {"query_key": 2.0}, lr=1),
            r"in_proj_weight is query \+ key \+ value in one tensor.*'in_proj_weight'",
        ),
        (lambda: param_groups(mlp(), {7: 2.0}, lr=1), r"7 matches no parameter.*layers 0 \.\. 2"),
        (lambda: param_groups(mlp(), {"first": -2.0}, lr=1), r"rate=-2\.0"),
        (lambda: param_groups(mlp(), {}, lr=0), "lr=0"),
        (lambda: Scale(init=float("nan")), "init=nan"),
        (lambda: mup_groups(mlp(), mlp(depth=2), lr=1), r"same parameters; \['4\.bias', '4\.weight'\] differ"),
        (lambda: mup_groups(mlp(), mlp(), lr=1, optimizer="lion"), "optimizer='lion'"),
        (
            lambda: param_groups(Attention(tied=True), {"readout": 3.0}, lr=1),
            r"wte\.weight is embedding \+ readout in one",
        ),
        (lambda: param_groups(Attention(tied=True), {"first": 3.0}, lr=1), r"no embedding alone.*'wte\.weight'"),
        (lambda: param_groups(Attention(tied=True), {-1: 3.0}, lr=1), r"wte\.weight is in layers 0 and 8"),
        (
            lambda: param_groups(Bare(), {"hidden": 3.0}, lr=1),
            r"W: whether it is hidden is not known.*roles=\{'W': 'hid",
        ),
        (
            lambda: param_groups(mlp(), {"hidden": 3.0}, lr=1, roles={"5.*": "input"}),
            r"roles=\{'5\.\*'.*names look like",
        ),
        (lambda: param_groups(mlp(), {"hidden": 3.0}, lr=1, roles={"*": "boss"}), "'boss'.*roles are input"),
        (lambda: param_groups(mlp(), {"hidden": 3.0}, lr=1, roles="input"), "roles='input'"),
        (lambda: param_groups(None, {}, lr=1), r"roles\(model=None\)"),
        (lambda: param_groups(mlp(), None, lr=1), "rules=None"),
        (lambda: param_groups(mlp(), ["first"], lr=1), r"rules=\['first'\]"),
        (lambda: param_groups(mlp(), {"first": "fast"}, lr=1), "'first': 'fast'.*a factor on the rate, or a Scale"),
        (lambda: param_groups(mlp(), {"first": None}, lr=1), "'first': None"),
        (lambda: param_groups(mlp(), {"first": True}, lr=1), "'first': True"),
        (lambda: param_groups(mlp(), {True: 2.0}, lr=1), "{True: .*a role, a layer's number or a name"),
        (lambda: param_groups(mlp(), {None: 2.0}, lr=1), "{None: "),
        (lambda: param_groups(mlp(), {1.0: 2.0}, lr=1), r"{1\.0: "),
        (lambda: param_groups(mlp(), {}, lr="fast"), "lr='fast'"),
        (lambda: param_groups(mlp(), {}, lr=float("nan")), "lr=nan"),
        (lambda: Scale(rate="2"), "rate='2'"),
        (lambda: mup_groups(mlp(), None, lr=1), r"roles\(model=None\)"),
        (lambda: mup_groups(Bare(32), Bare(8), lr=1), "W: whether it is readout is not known"),
        (lambda: mup_groups(Functional(32), Functional(8), lr=1), "no parameter reads the output"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_named(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()


def test_mup_at_the_base_width_is_the_standard_parametrisation():
    for optimizer in ("adam", "sgd"):
        model = Attention()
        before = values(model)
        (group,) = mup_groups(model, Attention(), lr=0.1, optimizer=optimizer)
        assert group["lr"] == 0.1
        assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("adam", {"0.weight": 1, "0.bias": 1, "2.weight": 1 / 4, "2.bias": 1, "4.weight": 1 / 4, "4.bias": 1}),
        ("sgd", {"0.weight": 4, "0.bias": 4, "2.weight": 1, "2.bias": 4, "4.weight": 1 / 4, "4.bias": 1}),
    ],
)
def test_mup_rates_follow_the_table(optimizer, expected):
    model = mlp(32)
    before = values(model)
    assert rates(mup_groups(model, mlp(8), lr=1.0, optimizer=optimizer)) == expected
    assert torch.allclose(model[4].weight, before["4.weight"] / 2)
    assert torch.allclose(model[4].bias, before["4.bias"] * 2)
    assert torch.equal(model[2].weight, before["2.weight"])


def test_mup_tells_inputs_and_outputs_by_the_axes_that_grew():
    found = rates(mup_groups(Attention(32), Attention(8), lr=1.0))
    assert {name for name, lr in found.items() if lr == 0.25} == {
        f"{name}.weight" for name in ("q_proj", "k_proj", "v_proj", "o_proj", "up", "down", "head")
    }
    found = rates(mup_groups(Attention(32), Attention(8), lr=1.0, optimizer="sgd"))
    assert found["wte.weight"] == found["norm.weight"] == found["q_proj.bias"] == 4.0
    assert found["q_proj.weight"] == 1.0


def test_under_mup_a_step_changes_the_output_as_much_at_every_width():
    """The coordinate check: without muP the change grows with the width, with it it does not."""
    changes = {}
    for groups_of in (lambda m, b: mup_groups(m, b, lr=0.01), lambda m, b: [{"params": m.parameters(), "lr": 0.01}]):
        sizes = []
        for width in (64, 1024):
            torch.manual_seed(0)
            model, base = mlp(width, bias=False), mlp(64, bias=False)
            optimizer = torch.optim.Adam(groups_of(model, base))
            x, y = torch.randn(64, 5), torch.randn(64, 1)
            before = model(x).detach()
            for _ in range(3):
                optimizer.zero_grad()
                ((model(x) - y) ** 2).mean().backward()
                optimizer.step()
            sizes.append((model(x).detach() - before).std().item())
        changes[len(changes)] = sizes[1] / sizes[0]
    assert 0.4 < changes[0] < 2.5
    assert changes[1] > 3


def test_a_rule_by_name_settles_what_a_role_does_not_tell():
    found = rates(param_groups(Bare(), {"W": 2.0, "readout": 3.0, "gain": 5.0, "bias": 7.0}, lr=1.0))
    assert found == {"W": 2.0, "gain": 5.0, "head.weight": 3.0, "head.bias": 7.0}
    found = rates(param_groups(Bare(), {"first": 2.0, "readout": 3.0}, lr=1.0, roles={"W": "input"}))
    assert found == {"W": 2.0, "gain": 1.0, "head.weight": 3.0, "head.bias": 1.0}
    tied = rates(param_groups(Attention(tied=True), {"wte.weight": 3.0, "hidden": 2.0}, lr=1.0))
    assert (tied["wte.weight"], tied["up.weight"], tied["q_proj.weight"]) == (3.0, 2.0, 1.0)


def test_mup_of_a_tensor_whose_role_is_given_goes_by_the_axis_that_grew():
    found = rates(mup_groups(Bare(32), Bare(8), lr=1.0, optimizer="sgd", roles={"W": "input"}))
    assert found == {"W": 4.0, "gain": 4.0, "head.weight": 0.25, "head.bias": 1.0}


def test_mup_of_constant_initial_values_is_that_of_values_that_fall_with_the_width():
    model, base = mlp(512, bias=False, depth=3), mlp(32, bias=False, depth=3)
    for network in (model, base):
        for layer in (0, 2, 4):
            nn.init.normal_(network[layer].weight, std=0.02)
    mup_groups(model, base, lr=1.0)
    stds = [model[layer].weight.std().item() / 0.02 for layer in (0, 2, 4)]
    assert stds == pytest.approx([1, 16**-0.5, 1 / 16], rel=0.1)


def test_a_transposed_matrix_has_its_fans_the_right_way_round():
    transformers = pytest.importorskip("transformers")

    def network(width):
        return nn.Sequential(transformers.pytorch_utils.Conv1D(width, 5), transformers.pytorch_utils.Conv1D(1, width))

    model, base = network(32), network(8)
    assert rates(mup_groups(model, base, lr=1.0)) == {"0.weight": 1, "0.bias": 1, "1.weight": 0.25, "1.bias": 1}
