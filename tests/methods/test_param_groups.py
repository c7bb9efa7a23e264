"""Rates and initial scales by layer, name or role, on modules of anybody's."""

import copy
import itertools

import pytest
import torch
from torch import nn

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.methods import Scale, balance_layers, mup_groups, param_groups
from headstart.methods.module_roles import module_parameters


def mlp(width=8, bias=True, depth=3, inputs=5, outputs=1):
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


def roles(module):
    return {p.name: str(p.role) for p in module_parameters(module)}


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


def test_a_linear_model_is_a_readout_and_a_tied_head_is_the_embedding():
    assert roles(nn.Linear(3, 1, bias=False)) == {"weight": "readout"}
    assert "head.weight" not in roles(Attention(tied=True))


def test_a_convolution_has_the_fan_in_of_its_window():
    conv = nn.Sequential(nn.Conv2d(3, 6, 5), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(6, 2))
    found = {p.name: p for p in module_parameters(conv)}
    assert found["0.weight"].fan_in == 75
    assert found["0.weight"].role is Role.INPUT
    assert found["1.weight"].role is Role.NORM
    assert (found["3.weight"].layer, found["3.bias"].layer) == (1, 1)


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
        (lambda: param_groups(nn.MultiheadAttention(4, 2), {"query_key": 2.0}, lr=1), "in_proj_weight holds queries"),
        (lambda: param_groups(mlp(), {7: 2.0}, lr=1), r"7 matches no parameter.*layers 0 \.\. 2"),
        (lambda: param_groups(mlp(), {"first": -2.0}, lr=1), r"rate=-2\.0"),
        (lambda: param_groups(mlp(), {}, lr=0), "lr=0"),
        (lambda: Scale(init=float("nan")), "init=nan"),
        (lambda: mup_groups(mlp(), mlp(depth=2), lr=1), r"same parameters; \['4\.bias', '4\.weight'\] differ"),
        (lambda: mup_groups(mlp(), mlp(), lr=1, optimizer="lion"), "optimizer='lion'"),
        (lambda: balance_layers(nn.Linear(3, 1), 2.0), "needs a first layer"),
        (lambda: balance_layers(mlp(), 0), "alpha=0"),
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


def test_balancing_keeps_the_function_of_a_two_layer_network_and_moves_its_norms():
    model = mlp(depth=2)
    other, x = copy.deepcopy(model), torch.linspace(-1, 1, 30).reshape(6, 5)
    balance_layers(other, 4.0)
    assert torch.allclose(model(x), other(x), atol=1e-6)
    assert torch.allclose(other[0].weight * 4, model[0].weight)
    assert torch.allclose(other[2].weight / 4, model[2].weight)
    balance_layers(model, 1.0)
    assert torch.allclose(other[0].weight * 4, model[0].weight)


def test_balancing_is_the_standard_network_with_other_rates():
    """For a bias-free two-layer ReLU network: W0 / alpha, alpha a0 is rates (eta alpha^2, eta / alpha^2)."""
    alpha, lr = 2.0, 0.05
    model = mlp(depth=2, bias=False).double()
    other = copy.deepcopy(model)
    balance_layers(other, alpha)
    one = torch.optim.SGD(param_groups(model, {"first": alpha**2, "readout": alpha**-2}, lr=lr))
    two = torch.optim.SGD(other.parameters(), lr=lr)
    x = torch.linspace(-1, 1, 30, dtype=torch.float64).reshape(6, 5)
    for _ in range(5):
        for network, optimizer in ((model, one), (other, two)):
            optimizer.zero_grad()
            ((network(x) - 1) ** 2).mean().backward()
            optimizer.step()
    assert torch.allclose(model(x), other(x), atol=1e-12)
