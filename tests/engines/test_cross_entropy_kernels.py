"""The kernels of cross-entropy beside the formula, and how they come into a traced step."""

import pytest
import torch

from headstart.core.metric import is_largest
from headstart.core.signature import Signature
from headstart.engines.ensemble import network, readout
from headstart.engines.ensemble.cross_entropy import SLOPES, loss_to_trace, score_of, slopes
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
    assert torch.allclose(score_of(CrossEntropy(), logits)(logits, y), CrossEntropy()(logits, y), atol=3e-6)
    right = score_of(is_largest, logits)(logits, y)
    assert torch.equal(right, is_largest(logits, y))
    assert right[:20].all()


def test_of_equal_scores_the_first_is_the_largest():
    logits = torch.zeros(3, 20)
    y = torch.tensor([0, 1, 19])
    assert score_of(is_largest, logits)(logits, y).tolist() == [True, False, False]


def test_targets_of_tokens_keep_their_shape():
    logits, y, _ = draw(5, num=12)
    logits, y = logits.view(3, 4, 5), y.view(3, 4)
    assert torch.allclose(score_of(CrossEntropy(), logits)(logits, y), CrossEntropy()(logits, y), atol=1e-6)


def test_other_scores_and_other_precisions_keep_their_formulas():
    logits, _, _ = draw(5)
    assert score_of(MSE(), logits) == MSE()
    assert score_of(is_largest, logits.double()) is is_largest
    assert loss_to_trace(MSE(), "cpu") == MSE()
    assert loss_to_trace(CrossEntropy(), "cuda") == CrossEntropy()


def test_a_row_that_is_not_finite_leaves_its_neighbours_alone_bit_for_bit():
    logits, y, d_loss = draw(17)
    clean = slopes(logits, y, d_loss)
    logits[4, 2] = torch.nan
    broken = slopes(logits, y, d_loss)
    others = [n for n in range(9) if n != 4]
    assert torch.isnan(broken[4]).all()
    assert torch.equal(broken[others], clean[others])
    assert torch.isnan(score_of(CrossEntropy(), logits)(logits, y)[4])


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
    found = call(weights, {}, x, y, torch.tensor(float(num)))
    (graph,) = net._traced.values()
    expected, _ = net._functions["both"](weights, {}, x, y, torch.tensor(float(num)))
    gradients = found[0] if predictions else found
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, expected[name], rtol=1e-4, atol=1e-6)
    return {node.target for node in graph.graph.nodes} & {readout.gradients, slopes, SLOPES}


def test_a_traced_step_takes_the_readout_at_once_where_it_is_narrow_and_its_logits_are_not_asked_for(monkeypatch):
    monkeypatch.setattr(readout, "_LEAST_LOGITS", 20 * 33)
    narrow = MLP(8, bias=False)
    assert traced(narrow, 33) == {readout.gradients}
    assert traced(narrow, 32) == {slopes}, "few logits"
    assert traced(narrow, 33, predictions=True) == {slopes}
    assert traced(MLP(8), 33) == {slopes}, "a bias stands between"
    assert traced(narrow, 33, dtype=torch.float64) == {SLOPES}
