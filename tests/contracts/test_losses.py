"""Every loss against its formula and its derivative. A new loss joins by adding one row to LOSSES."""

import json

import numpy as np
import pytest
import torch

from headstart.losses import MSE, Correlation, Hinge, Logistic
from headstart.run import decode, encode

# The loss, its formula and its derivative in f.
LOSSES = [
    pytest.param(MSE(), lambda f, y: (f - y) ** 2, lambda f, y: 2 * (f - y), id="mse"),
    pytest.param(Hinge(), lambda f, y: np.maximum(0, 1 - y * f), lambda f, y: np.where(y * f < 1, -y, 0.0), id="hinge"),
    pytest.param(
        Logistic(), lambda f, y: np.logaddexp(0, -y * f), lambda f, y: -y / (1 + np.exp(y * f)), id="logistic"
    ),
    pytest.param(Correlation(), lambda f, y: -y * f, lambda f, y: -y, id="correlation"),
]
every_loss = pytest.mark.parametrize(("loss", "formula", "derivative"), LOSSES)


def points():
    f = np.concatenate([np.linspace(-3.05, 3.05, 62), [0.0]])
    return np.tile(f, 2), np.repeat([-1.0, 1.0], len(f))


@every_loss
def test_a_loss_is_its_formula_for_every_sample(loss, formula, derivative):
    f, y = points()
    value = loss(torch.from_numpy(f), torch.from_numpy(y)).numpy()
    np.testing.assert_allclose(value, formula(f, y), rtol=1e-12, atol=1e-15)


@every_loss
def test_its_gradient_is_the_derivative(loss, formula, derivative):
    f, y = points()
    prediction = torch.from_numpy(f).requires_grad_()
    loss(prediction, torch.from_numpy(y)).sum().backward()
    np.testing.assert_allclose(prediction.grad.numpy(), derivative(f, y), rtol=1e-12, atol=1e-15)


@every_loss
def test_a_loss_stays_finite_in_float32_for_large_predictions(loss, formula, derivative):
    prediction = torch.tensor([-1e4, 1e4], requires_grad=True)
    value = loss(prediction, torch.tensor([1.0, 1.0]))
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(prediction.grad).all()


@every_loss
def test_a_loss_that_is_not_a_number_is_not_hidden(loss, formula, derivative):
    assert torch.isnan(loss(torch.tensor([float("nan")]), torch.tensor([1.0]))).all()


@every_loss
def test_a_loss_survives_json(loss, formula, derivative):
    assert decode(json.loads(json.dumps(encode(loss)))) == loss


def test_names_are_distinct():
    names = [row.values[0].name for row in LOSSES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("loss", [MSE(), Hinge(), Correlation()])
def test_losses_without_a_torch_function_take_arrays(loss):
    f, y = points()
    np.testing.assert_allclose(loss(f, y), loss(torch.from_numpy(f), torch.from_numpy(y)).numpy())
