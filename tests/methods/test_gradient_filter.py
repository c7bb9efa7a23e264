"""Running means of gradients: the equations, exact resume, and strength 0."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from headstart.core.encoding import decode, encode
from headstart.core.errors import HeadstartError
from headstart.core.units import Batch, Budget
from headstart.engines import Interrupted, Job, lower
from headstart.engines.ensemble import Ensemble
from headstart.engines.loop import Loop
from headstart.losses import MSE
from headstart.methods import GradientFilter, Hook
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Online
from headstart.run import Run, Step
from headstart.tasks import Parity

KINDS = [{"kind": "ema", "decay": 0.9}, {"kind": "window", "window": 3}]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=["ema", "window"])
every_engine = pytest.mark.parametrize("engine", [Loop(), Ensemble()], ids=["loop", "ensemble"])
RUN = Run(Parity(6, 2), MLP(4), Online(), MSE(), SGD(0.05), Batch(8), budget=Budget(8, record_every=2), seed=3)


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
    for g, out in zip(raw, filtered(GradientFilter(decay=0.9, strength=2.0).attach(model), model, raw), strict=True):
        mean = g if mean is None else 0.9 * mean + 0.1 * g
        assert torch.allclose(out, g + 2.0 * mean)


def test_a_window_acts_once_it_is_full():
    model = linear()
    raw = gradients(6)
    out = filtered(GradientFilter("window", window=3, strength=5.0).attach(model), model, raw)
    assert all(torch.equal(a, b) for a, b in zip(out[:2], raw[:2], strict=True))
    for i in range(2, 6):
        assert torch.allclose(out[i], raw[i] + 5.0 * torch.stack(raw[i - 2 : i + 1]).mean(dim=0))


@every_kind
def test_strength_zero_changes_nothing(kind):
    model = linear()
    raw = gradients(5)
    assert all(
        torch.equal(a, b)
        for a, b in zip(filtered(GradientFilter(**kind, strength=0).attach(model), model, raw), raw, strict=True)
    )


@every_kind
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_resume_is_exact(kind, stop, tmp_path):
    raw = gradients(8)
    model = linear()
    whole = filtered(GradientFilter(**kind).attach(model), model, raw)
    first = GradientFilter(**kind).attach(model)
    filtered(first, model, raw[:stop])
    torch.save(first.state_dict(), tmp_path / "state.pt")
    filtered(first, model, raw[stop:])  # what goes on does not touch what was saved
    second = GradientFilter(**kind).attach(copy.deepcopy(model))
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert all(torch.equal(a, b) for a, b in zip(filtered(second, second.model, raw[stop:]), whole[stop:], strict=True))


@every_kind
@every_engine
def test_a_run_with_a_filter_takes_the_steps_of_a_loop_with_the_filter_attached(engine, kind):
    method = GradientFilter(**kind, strength=3.0)
    run = replace(RUN, methods=(method,))
    (outcome,) = engine.train([Job(run, keep=(Step(8),))])
    module = run.model.module(run.task.signature)
    module.load_state_dict({name: torch.from_numpy(w) for name, w in run.fresh_weights().items()})
    slow, optimizer = method.attach(module), torch.optim.SGD(module.parameters(), lr=0.05)
    for step in range(8):
        data = run.task.sample(run.seed, np.arange(8 * step, 8 * step + 8))
        optimizer.zero_grad()
        ((module(torch.from_numpy(data.x)) - torch.from_numpy(data.y)) ** 2).mean().backward()
        slow()
        optimizer.step()
    for name, weight in module.named_parameters():
        ours = outcome.states[Step(8)].weights[name]
        np.testing.assert_allclose(ours, weight.detach().numpy(), rtol=1e-4, atol=1e-6)
        assert not np.array_equal(ours, run.fresh_weights()[name])


@every_kind
@every_engine
def test_a_run_with_a_filter_goes_on_exactly_after_an_interruption(engine, kind, tmp_path):
    run = replace(RUN, methods=(GradientFilter(**kind),))
    (whole,) = engine.train([Job(run)])
    job = Job(run, checkpoint=tmp_path / "c.safetensors")
    with pytest.raises(Interrupted):
        list(engine.train([job], watch=lambda index, step: step >= 4))
    (resumed,) = engine.train([job])
    assert all(np.array_equal(curve, resumed.trace[name]) for name, curve in whole.trace.values.items())


def test_strength_zero_asks_nothing_of_an_engine_and_is_the_untouched_run():
    assert GradientFilter().hooks == {Hook.GRADIENTS}
    neutral = replace(RUN, methods=(GradientFilter(strength=0),))
    assert lower(neutral).hooks == lower(RUN).hooks == frozenset()
    (one,), (two,) = (Loop().train([Job(run)]) for run in (neutral, RUN))
    assert all(np.array_equal(curve, two.trace[name]) for name, curve in one.trace.values.items())


def test_a_filter_survives_json_and_a_model_in_its_place_is_refused():
    method = GradientFilter("window", window=7)
    assert decode(json.loads(json.dumps(encode(method)))) == method
    with pytest.raises(HeadstartError, match=r"GradientFilter\(Linear\).*attach\(model\)"):
        GradientFilter(linear())


@pytest.mark.parametrize("kind", KINDS, ids=["ema", "window"])
def test_what_goes_on_does_not_touch_a_state_that_was_saved(kind):
    model = linear()
    slow = GradientFilter(**kind).attach(model)
    filtered(slow, model, gradients(2))
    state = slow.state_dict()
    kept = state["memory"]["weight"].clone()
    filtered(slow, model, gradients(3))
    assert torch.equal(state["memory"]["weight"], kept)


def test_a_parameter_without_a_gradient_is_left_alone():
    model = linear()
    GradientFilter().attach(model)()
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
        GradientFilter(**options)


def test_a_state_of_another_filter_is_refused():
    model = linear()
    slow = GradientFilter().attach(model)
    filtered(slow, model, gradients(1))
    with pytest.raises(HeadstartError, match="kind='ema'"):
        GradientFilter("window").attach(model).load_state_dict(slow.state_dict())
    with pytest.raises(HeadstartError, match="no parameter 'weight'"):
        GradientFilter().attach(torch.nn.Sequential(linear())).load_state_dict(slow.state_dict())
