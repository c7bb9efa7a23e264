"""Decision lists: probabilities and gradients in closed form against enumeration, autograd and engines."""

from math import log

import numpy as np
import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.core.units import Budget, FullBatch
from headstart.engines import Job
from headstart.engines.loop import Loop
from headstart.losses import CrossEntropy
from headstart.models import AttentionOnly
from headstart.optimizers import SGD
from headstart.plans import Online
from headstart.run import Run, Step
from headstart.tasks import DecisionList
from headstart.theory import (
    AttentionDescent,
    ListDescent,
    ValueStep,
    every_set,
    first_value_gradient,
    gradients,
    joint_bound,
    joint_smoothness,
    misclassified_delta,
    set_delta,
    triple_delta,
    triple_delta_by_enumeration,
    w_only_bound,
)

SMALL = DecisionList.cyclic(7, 3, (2, 4, 0), 3, ordered=False)
UNEVEN = DecisionList(5, 3, ((1, 0), (1,), (0, 1, 2), (4, 3), (4,)), (2, 1, 0, 4, 3))
FIGURE = DecisionList.cyclic(200, 25)


@pytest.mark.parametrize(
    "task", [SMALL, UNEVEN, DecisionList.cyclic(8, 4, (1, 2, 3, 0), 5), DecisionList.cyclic(5, 5, (1, 2, 0), 1)]
)
def test_the_delta_of_assumption_3_is_that_of_an_enumeration(task):
    assert triple_delta(task) == pytest.approx(triple_delta_by_enumeration(task), rel=1e-12)


def test_the_gradients_are_those_of_autograd_on_every_sequence():
    rng, sets = np.random.default_rng(0), every_set(SMALL)
    w, v = rng.normal(size=(2, 7, 7))
    found = gradients(sets, w, v)
    module = AttentionOnly().module(SMALL.signature).double()
    module.load_state_dict({"attention.weight": torch.tensor(w), "value.weight": torch.tensor(v)})
    sequences = DecisionList.cyclic(7, 3, (2, 4, 0), 3).population(0)
    scores = module(torch.from_numpy(sequences.x))
    loss = CrossEntropy()(scores, torch.from_numpy(sequences.y)).mean()
    loss.backward()
    assert found.loss == pytest.approx(loss.item(), rel=1e-12)
    np.testing.assert_allclose(found.attention, module.attention.weight.grad, atol=1e-14)
    np.testing.assert_allclose(found.value, module.value.weight.grad, atol=1e-14)
    right = (scores.argmax(-1).numpy() == sequences.y).mean()
    assert (found.margin > 0).mean() == pytest.approx(right)


def test_an_engine_takes_the_steps_of_the_population_that_theory_takes():
    part = ListDescent(SMALL, 2.0, 5, spread=0.3, seed=4)
    run = Run(
        SMALL, AttentionOnly(value_std=0.3), Online(), CrossEntropy(), SGD(2.0), batch=FullBatch(), budget=Budget(5),
        seed=4,
    )  # fmt: skip
    (outcome,) = Loop().train([Job(run, keep=(Step(0), Step(5)))])
    np.testing.assert_allclose(outcome.states[Step(0)].weights["value.weight"], part.start(), rtol=1e-6)
    assert outcome.trace["train_loss"][-1] == pytest.approx(part.compute()["loss"][-1], rel=1e-5)


@pytest.mark.parametrize("task", [SMALL, UNEVEN])
def test_the_first_step_of_v_is_in_closed_form_within_its_stated_error(task):
    zero, size = np.zeros((task.vocabulary,) * 2), task.vocabulary
    exact, none = first_value_gradient(task)
    np.testing.assert_allclose(exact, gradients(every_set(task), zero, zero).value, atol=1e-15)
    assert none == 0
    value = 0.01 * np.random.default_rng(1).normal(size=(size, size))
    near, error = first_value_gradient(task, value)
    away = np.abs(near - gradients(every_set(task), zero, value).value).max()
    assert 0 < away <= error < 1e-3 * np.abs(near).max()


def test_a_step_on_many_sequences_nears_that_on_the_population():
    exact = ValueStep(SMALL, None, 10.0).gradient()
    away = [np.abs(ValueStep(SMALL, num, 10.0).gradient() - exact).max() for num in (100, 10_000)]
    assert away[1] < 0.3 * away[0] < 0.3 * np.abs(exact).max()


def test_the_first_step_of_the_figure_finds_the_permutation():
    found = ValueStep(FIGURE, None, 200.0**2).compute()
    assert found["found"] == 1
    assert found["on_p"] == pytest.approx(200 / 25 * (1 - 25 / 200), rel=1e-4)  # L / n (1 - n / L)
    assert found["next"] < 0.1 * found["on_p"]


@pytest.mark.parametrize(("scale", "rate"), [(2.0, 3.0), (50.0, 0.02), (5e3, 1e-5)])
def test_a_column_of_w_has_as_many_numbers_as_its_list_and_one_more(scale, rate):
    direct = ListDescent(SMALL, rate, 30, scale, spread=0.0, learn_value=False).compute()
    reduced = AttentionDescent(7, 3, 3, scale, rate, 30).compute()
    assert reduced["first"] == direct["first"]
    np.testing.assert_allclose(reduced["loss"], direct["loss"][reduced["step"]], rtol=1e-9)
    start = gradients(every_set(SMALL), np.zeros((7, 7)), scale * np.eye(7)[:, list(SMALL.mapping)])
    assert reduced["gradient"][0] == pytest.approx(np.linalg.norm(start.attention))


def test_self_attention_comes_first_and_a_small_factor_stays_there():
    small, large = (AttentionDescent(200, 25, 4, c, 8 * 200 / (c**2 / 8 + c), 2000).compute() for c in (1.0, 30.0))
    assert small["first"] == -1
    assert small["weights"][-1].argmax() == 3
    assert large["first"] > 0
    assert np.array_equal(np.argsort(-large["weights"][-1]), np.arange(5))


def test_the_bounds_have_the_constants_of_the_proofs():
    only = w_only_bound(FIGURE)
    assert only.scale == pytest.approx(4 * 625 * log(200) / triple_delta(FIGURE))
    assert only.time == pytest.approx(32 * 4 / log(200))
    both, delta, eps = joint_bound(FIGURE, 2.0, 0.01), 0.01, 2.0
    first = log(200) + eps
    # The three inequalities that the proof of Theorem 4.4 needs, with what its choice of c gives.
    assert 25 * first / (both.scale / 50 - 2 * eps) <= delta / 5
    slope = (both.scale - 4 * eps) / (8 * 625) * 4 * delta / 5 - 6 * eps / 25
    assert slope == pytest.approx(4 * first * (4 / eps) ** 0.5)
    assert slope**2 / 4 > 2 * first / both.time
    with pytest.raises(HeadstartError, match="at most 16 M = 64"):
        joint_bound(FIGURE, 65.0)


@pytest.mark.parametrize("norm", [0.5, 3.0, 40.0])
def test_no_hessian_is_above_the_stated_smoothness(norm):
    sets, rng = every_set(SMALL), np.random.default_rng(2)
    stated = joint_smoothness(7, norm)
    for spread in (0.0, 1.0, 5.0):
        w, v = spread * rng.normal(size=(7, 7)), rng.normal(size=(7, 7))
        v *= norm / np.linalg.norm(v, 2)
        for _ in range(4):
            d = rng.normal(size=(2, 7, 7))
            for _ in range(15):
                d /= np.linalg.norm(d)
                up, down = (gradients(sets, w + s * d[0], v + s * d[1]) for s in (1e-4, -1e-4))
                d = np.array([up.attention - down.attention, up.value - down.value]) / 2e-4
            assert np.linalg.norm(d) <= stated


def test_misclassified_sets_are_counted_as_assumption_2_has_them():
    sets = every_set(SMALL)
    assert set_delta(SMALL) == 1 / 35
    assert misclassified_delta(SMALL, sets, np.ones(sets.x.shape)) == 1
    all_wrong = misclassified_delta(SMALL, sets, -np.ones(sets.x.shape))
    assert all_wrong == 5 / 35  # a and the first of its list: 5 of the 35 sets
    start = gradients(sets, np.zeros((7, 7)), 3 * np.eye(7)[:, list(SMALL.mapping)])
    assert misclassified_delta(SMALL, sets, start.margin) >= triple_delta(SMALL)


def test_no_entry_of_v_moves_by_more_than_the_rate_a_step():
    near = joint_bound(SMALL, 1.0)
    for part in (
        ListDescent(SMALL, 1 / near.smoothness, 50, near.scale, 0.5),
        ListDescent(SMALL, 10.0, 50),
        ListDescent(SMALL, 1000.0, 50),
    ):
        found = part.compute()
        assert 0 < found["drift"] <= 1


def test_from_near_the_permutation_the_population_is_right_long_before_the_bound():
    bound = joint_bound(SMALL, 1.0)
    found = ListDescent(SMALL, 1 / bound.smoothness, 200, bound.scale, 0.5, seed=1).compute()
    assert 0 < found["first"] < 1e-3 * bound.steps
    assert found["rises"] == 0
