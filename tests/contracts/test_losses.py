"""Every loss against its formula and its derivative. A new loss joins by adding one row to LOSSES."""

import json

import numpy as np
import pytest
import torch

from headstart.core.encoding import decode, encode
from headstart.losses import MSE, Correlation, CrossEntropy, Exponential, Hinge, Logistic

# The loss, its formula and its derivative in f.
LOSSES = [
    pytest.param(MSE(), lambda f, y: (f - y) ** 2, lambda f, y: 2 * (f - y), id="mse"),
    pytest.param(Hinge(), lambda f, y: np.maximum(0, 1 - y * f), lambda f, y: np.where(y * f < 1, -y, 0.0), id="hinge"),
    pytest.param(
        Logistic(), lambda f, y: np.logaddexp(0, -y * f), lambda f, y: -y / (1 + np.exp(y * f)), id="logistic"
    ),
    pytest.param(Correlation(), lambda f, y: -y * f, lambda f, y: -y, id="correlation"),
]
# Exponential losses overflow, as their formula does.
UNBOUNDED = [
    pytest.param(Exponential(), lambda f, y: np.exp(-y * f), lambda f, y: -y * np.exp(-y * f), id="exponential"),
]
every_loss = pytest.mark.parametrize(("loss", "formula", "derivative"), LOSSES + UNBOUNDED)


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


@pytest.mark.parametrize(("loss", "formula", "derivative"), LOSSES)
def test_a_loss_stays_finite_in_float32_for_large_predictions(loss, formula, derivative):
    prediction = torch.tensor([-1e4, 1e4], requires_grad=True)
    value = loss(prediction, torch.tensor([1.0, 1.0]))
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(prediction.grad).all()


def test_the_exponential_loss_of_a_large_wrong_prediction_is_infinite_and_of_a_right_one_zero():
    assert Exponential()(torch.tensor([-1e4, 1e4]), torch.tensor([1.0, 1.0])).tolist() == [torch.inf, 0]


@every_loss
def test_a_loss_that_is_not_a_number_is_not_hidden(loss, formula, derivative):
    assert torch.isnan(loss(torch.tensor([float("nan")]), torch.tensor([1.0]))).all()


@every_loss
def test_a_loss_survives_json(loss, formula, derivative):
    assert decode(json.loads(json.dumps(encode(loss)))) == loss


def test_names_are_distinct():
    names = [row.values[0].name for row in LOSSES + UNBOUNDED]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("loss", [MSE(), Hinge(), Correlation()])
def test_losses_without_a_torch_function_take_arrays(loss):
    f, y = points()
    np.testing.assert_allclose(loss(f, y), loss(torch.from_numpy(f), torch.from_numpy(y)).numpy())


def test_cross_entropy_is_its_formula_and_its_gradient_softmax_less_the_truth():
    f = torch.linspace(-3, 3, 60, dtype=torch.float64).reshape(12, 5).sin().mul(4).requires_grad_()
    y = torch.arange(12, dtype=torch.float64) % 5
    value = CrossEntropy()(f, y)
    expected = torch.nn.functional.cross_entropy(f.detach(), y.long(), reduction="none")
    np.testing.assert_allclose(value.detach().numpy(), expected.numpy(), rtol=1e-12)
    value.sum().backward()
    truth = np.eye(5)[y.long().numpy()]
    np.testing.assert_allclose(f.grad.numpy(), f.detach().softmax(-1).numpy() - truth, rtol=1e-9, atol=1e-12)


def test_cross_entropy_of_two_classes_is_the_logistic_loss():
    f, y = points()
    two = torch.stack((torch.from_numpy(f), torch.zeros(len(f), dtype=torch.float64)), dim=1)
    value = CrossEntropy()(two, torch.from_numpy((1 - y) / 2))
    np.testing.assert_allclose(value.numpy(), np.logaddexp(0, -y * f), rtol=1e-12, atol=1e-15)


def test_cross_entropy_stays_finite_for_large_logits_and_survives_json():
    assert torch.isfinite(CrossEntropy()(torch.tensor([[1e4, -1e4]]), torch.tensor([1.0]))).all()
    assert decode(json.loads(json.dumps(encode(CrossEntropy())))) == CrossEntropy()
