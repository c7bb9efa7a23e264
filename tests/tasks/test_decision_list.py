"""Decision lists: labels by the first token of a list that is there."""

from itertools import combinations
from math import comb, perm

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.tasks import DecisionList

LISTS = ((2, 1, 0), (1,), (3, 2), (0, 3))
TASK = DecisionList(4, 2, LISTS, (3, 0, 1, 2))


def test_a_label_is_that_of_the_first_token_of_the_list_which_is_there():
    assert TASK.determining(np.array([[0, 2], [0, 1], [3, 2], [1, 3]])).tolist() == [[2, 2], [1, 1], [3, 3], [1, 3]]
    assert TASK.label(np.array([[0, 2], [0, 1]])).tolist() == [[1, 1], [0, 0]]


def test_no_sequence_repeats_a_token_and_all_tokens_are_as_frequent():
    x = DecisionList.cyclic(20, 6, (3, 7, 0), 5).sample(3, np.arange(20_000)).x
    assert all(len(set(row)) == 6 for row in x.tolist())
    shares = np.array([np.bincount(column, minlength=20) for column in x.T]) / len(x)
    assert np.abs(shares - 1 / 20).max() < 5 * np.sqrt(0.05 * 0.95 / len(x))


def test_sets_are_all_combinations_in_order_and_sequences_all_of_their_arrangements():
    sets = DecisionList.cyclic(7, 3, (1, 0), 2, ordered=False)
    assert sets.population(0).x.tolist() == [list(c) for c in combinations(range(7), 3)]
    sequences = DecisionList.cyclic(7, 3, (1, 0), 2)
    assert (sequences.population_size, sets.population_size) == (perm(7, 3), comb(7, 3))
    assert {tuple(sorted(x)) for x in sequences.population(0).x.tolist()} == set(combinations(range(7), 3))


def test_the_lists_of_the_figure_wrap_around():
    task = DecisionList.cyclic(200, 25)
    assert task.lists[175] == (185, 195, 5, 175)
    assert task.mapping[190] == 10
    assert task.longest == 4
    assert task.population_size is None


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        ((4, 5, LISTS, (3, 0, 1, 2)), "length is at most 4"),
        ((4, 2, LISTS, (3, 0, 1, 1)), "every token 0 .. 3 once"),
        ((4, 2, LISTS[:3], (3, 0, 1, 2)), "there are 3; give 4"),
        ((4, 2, (*LISTS[:3], (3, 0)), (3, 0, 1, 2)), "end on 3"),
        ((4, 2, (*LISTS[:3], (0, 0, 3)), (3, 0, 1, 2)), "different tokens"),
        ((4, 2, (*LISTS[:3], (4, 3)), (3, 0, 1, 2)), r"of 0 \.\. 3"),
    ],
)
def test_what_is_no_decision_list_is_refused_by_name(arguments, fix):
    with pytest.raises(HeadstartError, match=f"DecisionList.*{fix}"):
        DecisionList(*arguments)
