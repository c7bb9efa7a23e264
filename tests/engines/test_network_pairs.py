"""Pairs of networks as grouped convolutions: what two ordinary runs say too."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.core.encoding import decode, encode
from headstart.engines.loop import Loop
from headstart.engines.pairs import NetworkPair
from headstart.measures import compare_pair, interpolate
from headstart.tasks import held_out

SIZE, STEPS = 60, 12
RUN = hs.Run(
    hs.MadeImages(SIZE, 50),
    hs.ConvNet(4),
    hs.Fixed(SIZE, replacement=False),
    hs.CrossEntropy(),
    hs.SGD(0.05, momentum=0.9, schedule=hs.StepDecay((0.5,))),
    hs.Batch(16),  # crosses the end of an epoch
    budget=hs.Budget(STEPS, 4),
    seed=2,
)
PART = NetworkPair(RUN, 7, (0, 4, STEPS))
MODELS = {
    "momentum": RUN,
    "no momentum": replace(RUN, optimizer=hs.SGD(0.05)),
    "residual": replace(RUN, model=hs.ResNet(8, 4)),
}


def ordinary(run, pair, swapped):
    """One of a pair as an ordinary Run of the loop: its trace, and its State at the end."""
    job = hs.engines.Job(replace(run, task=hs.SwapRow(run.task, pair, swapped)), keep=(hs.Step(STEPS),))
    (outcome,) = Loop().train([job])
    (state,) = outcome.states.values()
    return outcome.trace, state


def losses(run, state, data):
    """The loss of each row, and its outputs, by the module of one network in evaluation mode."""
    import torch

    module = run.model.module(run.task.signature).eval()
    module.load_state_dict({k: torch.from_numpy(v) for k, v in (state.weights | state.buffers).items()})
    with torch.no_grad():
        scores = module(torch.from_numpy(data.x))
    return run.loss(scores, torch.from_numpy(data.y)).numpy(), (scores.argmax(1).numpy() != data.y)


@pytest.mark.parametrize("run", MODELS.values(), ids=MODELS)
def test_the_pair_is_what_two_ordinary_runs_of_the_loop_engine_are(run):
    found = replace(PART, run=run, interpolate=7).compute()
    (trace, one), (_, other) = (ordinary(run, PART.pair, swapped) for swapped in (False, True))
    np.testing.assert_allclose(found["test_loss"][0], trace["test_loss"][[0, 1, 3]], rtol=1e-5)
    np.testing.assert_allclose(found["test_error"][0], 1 - trace["test_accuracy"][[0, 1, 3]], atol=1e-9)
    tasks = [hs.SwapRow(run.task, PART.pair, swapped) for swapped in (False, True)]
    test = held_out(tasks[0], 0)
    both = [
        hs.measures.Behaviour(*losses(run, state, task.population(0)), *losses(run, state, test), state.weights)
        for state, task in zip((one, other), tasks, strict=True)
    ]
    expected = compare_pair(*both, tasks[0].swap.test_row)
    assert expected["distance"] > 0.01
    for name, value in expected.items():
        np.testing.assert_allclose(found[name][0, -1], value, rtol=2e-3, atol=1e-6, err_msg=name)
    for place, alpha in ((0, -1.0), (3, 0.5), (4, 1.0), (6, 2.0)):  # alpha S + (1 - alpha) S'
        assert found["alpha"][place] == alpha
        right = ~losses(run, interpolate(other, one, alpha), test)[1]
        assert found["test_accuracy"][0, place] == pytest.approx(right.mean(), abs=0.021)  # one row of 50


@pytest.mark.parametrize("run", MODELS.values(), ids=MODELS)
def test_without_a_swap_nothing_differs_at_all(run):
    part = replace(PART, run=run)
    found = replace(part, swapped=False).compute()
    for name in ("stability", "mean_stability", "stability_without_z", "distance", "normalised_distance"):
        assert not found[name].any()
    assert np.array_equal(found["norm"], found["other_norm"])


def test_networks_of_the_sizes_that_studies_train_are_equal_without_a_swap():
    for width, channels, side in ((8, 1, 14), (16, 3, 16)):
        task = hs.MadeImages(SIZE, 50, side=side, channels=channels)
        part = replace(PART, run=replace(RUN, task=task, model=hs.ConvNet(width)), swapped=False)
        assert not part.compute()["distance"].any()


def test_a_nudge_comes_after_its_step_and_is_seen_then():
    early, late = (replace(PART, swapped=False, nudge=1e-3, nudge_step=step).compute() for step in (0, 4))
    np.testing.assert_allclose(early["distance"][0, 0], 1e-3, rtol=1e-3)
    assert late["distance"][0, 0] == 0
    np.testing.assert_allclose(late["distance"][0, 1], 1e-3, rtol=1e-2)
    assert early["distance"][0, -1] != late["distance"][0, -1] > 0


def test_results_do_not_depend_on_when_a_pair_is_looked_at_and_the_trial_is_the_seed():
    found, late = PART.compute(), replace(PART, record=(STEPS,)).compute()
    for name, values in found.items():
        if name not in ("step", "pair", "place", "z"):
            assert np.array_equal(late[name][0], values[0, -1:]), name
    other = replace(PART, run=RUN.at(3)).compute()
    assert (other["z"], other["place"]) == (found["z"], found["place"])
    assert other["distance"][0, -1] != found["distance"][0, -1]


def test_the_line_between_the_two_is_that_of_the_step_asked_for():
    at_4, at_end = (replace(PART, interpolate=4, interpolate_step=step).compute() for step in (4, None))
    for found, record in ((at_4, 1), (at_end, 2)):
        assert found["test_accuracy"][0, 2] == pytest.approx(1 - found["test_error"][0, record])  # at alpha = 1
    assert not np.array_equal(at_4["train_accuracy"], at_end["train_accuracy"])


def test_a_part_is_known_by_its_trial_too_and_survives_json():
    assert decode(encode(PART)) == PART
    assert encode(replace(PART, run=RUN.at(3))) != encode(PART)
    assert 0 < PART.seconds < 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"record": (4, 2)}, r"record=\(4, 2\).*in order"),
        ({"record": (STEPS + 1,)}, "budget of 12 steps"),
        ({"interpolate": 75}, "num=75"),
        ({"interpolate_step": 5}, "one of record"),
        ({"nudge": -1}, "nudge=-1"),
        ({"pair": -1}, "seed=-1"),
        ({"run": replace(RUN, task=hs.SwapRow(RUN.task, 1))}, "the pair swaps"),
        ({"run": replace(RUN, model=hs.ConvNet(6))}, "multiple of 4"),
        ({"run": replace(RUN, model=hs.MLP(8))}, "ConvNet or ResNet"),
        ({"run": replace(RUN, optimizer=hs.AdamW(0.1))}, "SGD"),
        ({"run": replace(RUN, batch=hs.FullBatch())}, r"Batch\(\.\.\.\)"),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(hs.HeadstartError, match=message):
        replace(PART, **changes)
