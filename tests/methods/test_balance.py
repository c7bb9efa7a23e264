"""Balanced layers: another start, the same function, or a refusal."""

import copy

import pytest
import torch
from torch import nn

from headstart.core.errors import HeadstartError
from headstart.methods import balance_layers, param_groups

X = torch.linspace(-1, 1, 30).reshape(6, 5)


def mlp(width=8, bias=True, depth=3, between=nn.ReLU):
    layers = [nn.Linear(5, width, bias=bias)]
    for _ in range(depth - 2):
        layers += [between(), nn.Linear(width, width, bias=bias)]
    return nn.Sequential(*layers, between(), nn.Linear(width, 2, bias=bias))


class Residual(nn.Module):
    """Blocks of a user's own, which only their forward pass describes."""

    def __init__(self, between=torch.relu):
        super().__init__()
        self.embed, self.up, self.down, self.head = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.between = between

    def forward(self, x):
        x = self.embed(x)
        return self.head(x + self.down(self.between(self.up(x))))


class Symbols(nn.Module):
    """A bag of symbols with places."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe, self.up, self.head = (
            nn.Embedding(7, 8),
            nn.Embedding(4, 8),
            nn.Linear(8, 8),
            nn.Linear(8, 3),
        )

    def forward(self, symbols):
        return self.head(torch.relu(self.up(self.wte(symbols) + self.wpe(torch.arange(4)))))


def test_balancing_keeps_the_function_of_a_two_layer_network_and_moves_its_norms():
    model = mlp(depth=2)
    other, x = copy.deepcopy(model), X
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
    x = X.double()
    for _ in range(5):
        for network, optimizer in ((model, one), (other, two)):
            optimizer.zero_grad()
            ((network(x) - 1) ** 2).mean().backward()
            optimizer.step()
    assert torch.allclose(model(x), other(x), atol=1e-12)


@pytest.mark.parametrize("alpha", [0.25, 3.0])
@pytest.mark.parametrize(
    ("make", "example"),
    [
        (lambda: mlp(depth=4), None),
        (lambda: mlp(between=nn.LeakyReLU), None),
        (lambda: nn.Sequential(nn.Sequential(nn.Linear(5, 8), nn.PReLU()), nn.Dropout(), nn.Linear(8, 2)), None),
        (
            lambda: nn.Sequential(
                nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 4, 3), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(4, 2)
            ),
            None,
        ),
        (Residual, X),
        (Residual, (X,)),
        (Residual, {"x": X}),
    ],
)
def test_the_function_of_deep_networks_with_biases_stays(make, example, alpha):
    torch.manual_seed(0)
    model = make().eval()
    other = copy.deepcopy(model)
    balance_layers(other, alpha, example)
    assert torch.allclose(model(X), other(X), rtol=1e-4, atol=1e-5)
    first = next(iter(model.parameters()))
    assert torch.allclose(next(iter(other.parameters())) * alpha, first)


def test_places_go_with_the_embedding_they_are_added_to():
    model, symbols = Symbols(), torch.tensor([[0, 1, 2, 3], [6, 5, 4, 3]])
    other = copy.deepcopy(model)
    balance_layers(other, 2.0, symbols)
    assert torch.allclose(model(symbols), other(symbols), rtol=1e-4, atol=1e-5)
    assert torch.allclose(other.wpe.weight * 2, model.wpe.weight)


@pytest.mark.parametrize(
    ("make", "example", "message"),
    [
        (lambda: mlp(between=nn.Tanh), None, "'1', a Tanh, is not known to be positively homogeneous"),
        (lambda: mlp(between=nn.Tanh), 0.01 * X, "the balanced network is another function"),
        (lambda: mlp(between=nn.GELU), X, "the balanced network is another function"),
        (lambda: nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), None, "a BatchNorm1d"),
        (lambda: nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), X, "undoes the scale"),
        (lambda: nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Linear(8, 2)), X, "another function"),
        (Residual, None, "how a Residual computes is not known; give example="),
        (lambda: Residual(torch.tanh), X, "another function"),
        (lambda: nn.Linear(3, 1), None, "needs a first layer and a readout"),
    ],
)
def test_what_would_be_another_function_is_refused_and_left_alone(make, example, message):
    model = make()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(HeadstartError, match=message):
        balance_layers(model, 2.0, example)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_tied_head_is_refused():
    model = Symbols()
    model.head = nn.Linear(8, 7, bias=False)
    model.head.weight = model.wte.weight
    with pytest.raises(HeadstartError, match=r"wte\.weight is embedding \+ readout in one tensor"):
        balance_layers(model, 2.0, torch.tensor([[0, 1, 2, 3]]))


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), "2", None, True])
def test_a_factor_that_is_none_is_refused(alpha):
    with pytest.raises(HeadstartError, match="alpha="):
        balance_layers(mlp(), alpha)
