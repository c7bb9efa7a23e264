"""What the studies of XOR clusters share: the weak model's start, the decay, and the step on what it passes on."""

import numpy as np
import pytest

import headstart as hs
from headstart.core.streams import Stream
from headstart.lab.computed import trained
from headstart.measures import Every
from headstart.studies.grok_transfer._xor import PassedOn, XorKnobs, weak_run, xor_run
from headstart.studies.grok_transfer._xor_step import VARIANTS, TransferredStep

SMALL = XorKnobs(dim=300, samples=40, noise=0.1, num_test=60, width=16, weak_steps=3)


def states(run):
    (outcome,) = trained([run], keep=(hs.Step(0), hs.Step(1)))
    return outcome.states[hs.Step(0)].weights, outcome.states[hs.Step(1)].weights


def test_a_weak_model_begins_with_the_papers_deviations():
    outcomes = trained([weak_run(SMALL).at(seed) for seed in range(12)], keep=(hs.Step(0),))
    begun = [outcome.states[hs.Step(0)].weights for outcome in outcomes]
    assert np.std([weights["layers.0.weight"] for weights in begun]) == pytest.approx(0.1, rel=0.03)
    assert np.std([weights["layers.1.weight"] for weights in begun]) == pytest.approx(0.01, rel=0.3)


def test_a_step_shrinks_all_weights_by_the_coefficient_and_descends_by_the_rate():
    run = xor_run(SMALL, hs.MLP(4, bias=False), 1)
    before, after = states(run)
    data = run.task.sample(0, np.arange(SMALL.samples))
    w, a = before["layers.0.weight"].astype(float), before["layers.1.weight"][0].astype(float)
    hidden = data.x @ w.T
    slope = -data.y * np.exp(-data.y * (np.maximum(hidden, 0) @ a)) / SMALL.samples
    gradient = ((slope[:, None] * (hidden > 0)) * a).T @ data.x
    np.testing.assert_allclose(after["layers.0.weight"], (1 - SMALL.coefficient) * w - SMALL.rate * gradient, atol=1e-6)


def test_what_is_passed_on_is_the_test_rows_through_the_first_layer():
    measure = PassedOn(at=Every(3), num_rows=7)
    run = weak_run(SMALL)
    (outcome,) = trained([run], keep=(hs.Step(3),), measures=(measure,))
    weights = outcome.states[hs.Step(3)].weights["layers.0.weight"]
    x = run.task.sample(0, np.arange(7), Stream.EVALUATION).x
    seen = outcome.measured[measure]
    np.testing.assert_allclose(seen["z"][-1], x @ weights.T, rtol=1e-5, atol=1e-6)
    assert seen["weights"][-1].tolist() == weights[:, :12].tolist()
    assert seen["corner"][-1].tolist() == x[:, :2].tolist()


def test_the_step_on_a_trained_weak_model_has_every_variant_and_its_neutral_point():
    part = TransferredStep(weak_run(SMALL, record_every=3), width=32, steps=2, num_test=30)
    arrays = part.compute()
    assert {name: arrays[name].shape for name in VARIANTS} == dict.fromkeys(VARIANTS, (3, 2))
    # Before the first step what is trained makes no difference.
    for name in ("readout", "embedding"):
        assert arrays[name][0].tolist() == arrays["theorem"][0].tolist()
    assert part.samples == SMALL.samples
