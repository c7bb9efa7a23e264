"""The kernels of cross-entropy beside the formula, and how they come into a traced step."""

import pytest
import torch

from headstart.core.metric import class_accuracy, is_largest, sign_accuracy
from headstart.core.signature import Signature
from headstart.engines.ensemble import network, readout
from headstart.engines.ensemble.cross_entropy import (
    CLASSIFIED,
    KERNELS,
    SLOPES,
    classified,
    is_classifier,
    loss_to_trace,
    slopes,
)
from headstart.losses import MSE, CrossEntropy
from headstart.models import MLP

every_number_of_classes = pytest.mark.parametrize("classes", [2, 16, 17, 113])


def draw(classes, num=9, scale=1.0, dtype=torch.float32):
    make = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(num, classes, generator=make, dtype=dtype)
    return logits, torch.randint(classes, (num,), generator=make), torch.rand(num, generator=make, dtype=dtype)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
@every_number_of_classes
def test_slopes_are_those_of_autograd_up_to_rounding(classes, scale):
    logits, y, d_loss = draw(classes, scale=scale)
    exact = logits.double().requires_grad_()
    (expected,) = torch.autograd.grad((CrossEntropy()(exact, y) * d_loss).sum(), exact)
    for mine in (slopes(logits, y, d_loss), SLOPES(logits, y, d_loss)):
        assert torch.allclose(mine.double(), expected, rtol=1e-5, atol=2e-7)


@every_number_of_classes
def test_losses_and_largest_classes_are_those_of_the_formulas(classes):
    logits, y, _ = draw(classes, num=40, scale=3.0)
    y[:20] = logits[:20].argmax(-1)
    losses, right = classified(logits, y)
    assert torch.allclose(losses, CrossEntropy()(logits, y), atol=3e-6)
    assert torch.equal(right, is_largest(logits, y))
    assert right[:20].all()


def test_of_equal_scores_the_first_is_the_largest():
    y = torch.tensor([0, 1, 19])
    assert classified(torch.zeros(3, 20), y)[1].tolist() == [True, False, False]


def test_other_losses_metrics_and_devices_keep_their_formulas():
    assert loss_to_trace(MSE(), "cpu") == MSE()
    assert loss_to_trace(CrossEntropy(), "cuda") == CrossEntropy()
    accuracy = class_accuracy(5)
    assert is_classifier(CrossEntropy(), (accuracy,))
    assert not is_classifier(MSE(), (accuracy,))
    assert not is_classifier(CrossEntropy(), (accuracy, sign_accuracy()))


def test_a_row_that_is_not_finite_leaves_its_neighbours_alone_bit_for_bit():
    logits, y, d_loss = draw(17)
    clean = slopes(logits, y, d_loss)
    logits[4, 2] = torch.nan
    broken = slopes(logits, y, d_loss)
    others = [n for n in range(9) if n != 4]
    assert torch.isnan(broken[4]).all()
    assert torch.equal(broken[others], clean[others])
    losses, right = classified(logits, y)
    assert torch.isnan(losses).tolist() == [n == 4 for n in range(9)]
    assert not right[4]


# --- a readout and its loss as one kernel ---------------------------------------------------------------------------


@pytest.mark.parametrize("num", [33, 66])
def test_the_gradients_of_a_readout_are_the_products_with_its_slopes(num):
    make = torch.Generator().manual_seed(0)
    h, weights = torch.randn(2, num, 8, generator=make), torch.randn(2, 20, 8, generator=make)
    y, d_loss = torch.randint(20, (2, num), generator=make), torch.rand(2, num, generator=make)
    each = [SLOPES(h[m].double() @ weights[m].double().T, y[m], d_loss[m].double()) for m in range(2)]
    d_h, d_weights = readout.gradients(h, weights, y.flatten(), d_loss.flatten())
    for m in range(2):
        assert torch.allclose(d_h[m].double(), each[m] @ weights[m].double(), atol=1e-5)
        assert torch.allclose(d_weights[m].double(), each[m].T @ h[m].double(), atol=1e-5)
    weights[1] = torch.nan
    again = readout.gradients(h, weights, y.flatten(), d_loss.flatten())
    assert torch.equal(again[0][0], d_h[0])
    assert torch.equal(again[1][0], d_weights[0])
    assert torch.isnan(again[1][1]).all()


def test_the_scores_of_a_readout_are_those_of_its_logits():
    make = torch.Generator().manual_seed(0)
    h, weights = torch.randn(2, 33, 8, generator=make), torch.randn(2, 20, 8, generator=make)
    logits = (h @ weights.transpose(1, 2)).flatten(0, 1)
    y = torch.where(torch.arange(66) % 2 == 0, logits.argmax(-1), torch.randint(20, (66,), generator=make))
    losses, right = readout.scores(h, weights, y)
    expected = CLASSIFIED(logits, y)
    assert torch.allclose(losses, expected[0], atol=1e-5)
    assert torch.equal(right, expected[1])


def traced(model, num, predictions=False, dtype=torch.float32):
    """What a step of two members calls, whose gradients are those of its operations one by one."""
    signature = Signature((5,), outputs=(20,))
    make = torch.Generator().manual_seed(0)
    weights = {
        p.name: torch.randn(2, *p.shape, generator=make, dtype=dtype) / p.fan_in**0.5
        for p in model.parameters(signature)
    }
    x, y = torch.randn(2, num, 5, generator=make, dtype=dtype), torch.randint(20, (2, num), generator=make)
    net = network.Network(model, signature, CrossEntropy(), (), "cpu")
    call = net.gradients_and_predictions if predictions else net.gradients
    data = (x, y, torch.tensor(float(num)))
    found = call(weights, {}, *data)
    expected, _ = net._stacked("both", data)(weights, {}, *data)
    gradients = found[0] if predictions else found
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, expected[name], rtol=1e-4, atol=1e-6)
    scored = net.classified(weights, {}, x, y)
    prediction = net._stacked("predict", (x,))(weights, {}, x)
    assert torch.allclose(scored[0], CrossEntropy()(prediction, y), rtol=1e-4, atol=1e-5)
    assert torch.equal(scored[1], is_largest(prediction, y))
    graphs = net._traced.values()
    return {node.target for g in graphs for node in g.graph.nodes} & {*readout.KERNELS, *KERNELS, SLOPES, CLASSIFIED}


def test_a_traced_step_takes_the_readout_at_once_where_it_is_narrow_and_its_logits_are_not_asked_for(monkeypatch):
    monkeypatch.setattr(readout, "_LEAST_LOGITS", 20 * 33)
    narrow = MLP(8, bias=False)
    assert traced(narrow, 33) == {*readout.KERNELS}
    assert traced(narrow, 32) == {*KERNELS}, "few logits"
    assert traced(narrow, 33, predictions=True) == {slopes, readout.scores}
    assert traced(MLP(8), 33) == {*KERNELS}, "a bias stands between"
    assert traced(narrow, 33, dtype=torch.float64) == {SLOPES, CLASSIFIED}
