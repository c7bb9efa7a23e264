"""What the studies of decision lists share, and the sizes they speak of."""

import numpy as np
import pytest

from headstart.lab import Verdict, below
from headstart.studies.decision_lists import at_most, number
from headstart.studies.decision_lists.one_step import LAPTOP as ONE_STEP
from headstart.studies.decision_lists.w_and_v import LAPTOP as JOINT
from headstart.studies.decision_lists.w_only import bound_of, descent, smoothness
from headstart.tasks import DecisionList, held_out
from headstart.theory import w_only_bound


def test_a_number_beyond_what_was_tried_is_known_from_below_alone():
    assert at_most(0.5, 0.1) == number(0.5)
    missed = at_most(float("inf"), 0.1)
    assert (missed.low, missed.high, str(missed.known)) == (0.1, float("inf"), "at least")
    assert below(1.0).verdict(missed) is Verdict.UNDECIDED


def test_both_indexings_are_permutations_of_their_tokens():
    sizes = {name: task.vocabulary for name, task in ONE_STEP.tasks.items()}
    assert sizes == {"mod_l": 200, "mod_l1": 201}
    assert ONE_STEP.rate == 40_000


def test_the_bound_of_a_shape_is_that_of_any_lists_of_this_length_and_its_rate_is_one_over_the_smoothness():
    shape = (200, 25, 4)
    assert bound_of(shape) == w_only_bound(DecisionList.cyclic(200, 25))
    assert smoothness(shape, bound_of(shape).scale) == bound_of(shape).smoothness
    part = descent(type("K", (), {"steps": 7}), shape)
    assert part.rate * bound_of(shape).smoothness == pytest.approx(1)
    assert part.steps == 7


def test_the_plateau_is_the_share_of_labels_that_their_own_token_determines():
    task = JOINT.figure_task
    x = held_out(task, 0).x
    share = (task.determining(x) == x).mean()
    assert abs(share - JOINT.plateau) < 5 * np.sqrt(JOINT.plateau * (1 - JOINT.plateau) / x.size)
