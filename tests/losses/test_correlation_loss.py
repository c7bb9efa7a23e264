"""The correlation loss on batches: signs, and classes."""

import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.losses import Correlation, CorrelationLoss


def test_on_signs_it_is_the_labs_loss():
    f, y = torch.tensor([0.5, -2.0, 3.0]), torch.tensor([1.0, 1.0, -1.0])
    assert torch.equal(CorrelationLoss("none")(f, y), Correlation()(f, y))
    assert CorrelationLoss()(f, y) == Correlation()(f, y).mean()
    assert CorrelationLoss("sum")(f, y) == Correlation()(f, y).sum()


def test_on_classes_its_gradient_is_minus_the_centred_indicator():
    scores = torch.tensor([[0.1, 0.2, 0.3], [1.0, 0.0, -1.0]], requires_grad=True)
    CorrelationLoss("sum")(scores, torch.tensor([2, 0])).backward()
    indicator = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert torch.allclose(scores.grad, 1 / 3 - indicator)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CorrelationLoss("max"), "reduction='max'"),
        (lambda: CorrelationLoss()(torch.ones(3, 1), torch.ones(3)), r"\(3, 1\).*\(3,\) do not fit"),
    ],
)
def test_what_does_not_fit_is_named(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()
