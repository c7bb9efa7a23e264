"""Running means of gradients: the equations, exact resume, and strength 0."""

import copy

import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.methods import GradientFilter

KINDS = [{"kind": "ema", "decay": 0.9}, {"kind": "window", "window": 3}]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=["ema", "window"])


def gradients(num):
    return [torch.linspace(-1, 1, 6).reshape(2, 3) * (i + 1) + i**2 for i in range(num)]


def filtered(slow, model, sequence):
    out = []
    for gradient in sequence:
        model.weight.grad = gradient.clone()
        slow()
        out.append(model.weight.grad.clone())
    return out


def linear():
    return torch.nn.Linear(3, 2, bias=False)


def test_the_exponential_mean_starts_at_the_first_gradient():
    model = linear()
    mean, raw = None, gradients(5)
    for g, out in zip(raw, filtered(GradientFilter(model, decay=0.9, strength=2.0), model, raw), strict=True):
        mean = g if mean is None else 0.9 * mean + 0.1 * g
        assert torch.allclose(out, g + 2.0 * mean)


def test_a_window_acts_once_it_is_full():
    model = linear()
    raw = gradients(6)
    out = filtered(GradientFilter(model, "window", window=3, strength=5.0), model, raw)
    assert all(torch.equal(a, b) for a, b in zip(out[:2], raw[:2], strict=True))
    for i in range(2, 6):
        assert torch.allclose(out[i], raw[i] + 5.0 * torch.stack(raw[i - 2 : i + 1]).mean(dim=0))


@every_kind
def test_strength_zero_changes_nothing(kind):
    model = linear()
    raw = gradients(5)
    assert all(
        torch.equal(a, b)
        for a, b in zip(filtered(GradientFilter(model, **kind, strength=0), model, raw), raw, strict=True)
    )


@every_kind
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_resume_is_exact(kind, stop, tmp_path):
    raw = gradients(8)
    model = linear()
    whole = filtered(GradientFilter(model, **kind), model, raw)
    first = GradientFilter(model, **kind)
    filtered(first, model, raw[:stop])
    torch.save(first.state_dict(), tmp_path / "state.pt")
    filtered(first, model, raw[stop:])  # what goes on does not touch what was saved
    second = GradientFilter(copy.deepcopy(model), **kind)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert all(torch.equal(a, b) for a, b in zip(filtered(second, second.model, raw[stop:]), whole[stop:], strict=True))


def test_a_parameter_without_a_gradient_is_left_alone():
    model = linear()
    GradientFilter(model)()
    assert model.weight.grad is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "mean"}, "kind='mean'"),
        ({"decay": 1.0}, r"decay=1\.0"),
        ({"window": 0}, "window=0"),
        ({"strength": -1.0}, r"strength=-1\.0"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(HeadstartError, match=message):
        GradientFilter(linear(), **options)


def test_a_state_of_another_filter_is_refused():
    model = linear()
    slow = GradientFilter(model)
    filtered(slow, model, gradients(1))
    with pytest.raises(HeadstartError, match="kind='ema'"):
        GradientFilter(model, "window").load_state_dict(slow.state_dict())
    with pytest.raises(HeadstartError, match="no parameter 'weight'"):
        GradientFilter(torch.nn.Sequential(linear())).load_state_dict(slow.state_dict())
