"""The overlap process from the starts of runs."""

from dataclasses import replace

import numpy as np
import pytest

from headstart import HeadstartError
from headstart.tasks import Hermite
from headstart.theory import Process, ProcessTimes, ReducedSGD, simulate

PROCESS = Process(Hermite(2), Hermite(2), 200, 400, 0.05)
PART = ProcessTimes(PROCESS, 32, 300)
FOUND = PART.compute()


def test_the_process_begins_where_runs_of_the_chain_do():
    chain = simulate(ReducedSGD(Hermite(2), Hermite(2), 200, 400, 0.05), 32, 0)
    assert (chain.start[:, 0, 0] == FOUND["start"]).all()


def test_the_first_step_at_the_level_is_that_of_the_path_of_the_process():
    for start, first in list(zip(FOUND["start"], FOUND["first"], strict=True))[:4]:
        path = PROCESS.run(np.full((1, 1), start), np.ones((1, 1)), 300, until=0.5)[0]
        assert len(path) - 1 == first


def test_near_zero_a_step_multiplies_the_overlap_by_the_growth():
    assert PROCESS.next_overlap(1e-4) / 1e-4 == pytest.approx(float(FOUND["growth"]), rel=1e-6)


def test_a_path_that_does_not_get_there_is_censored_and_a_typical_one_begins_at_one_over_root_d():
    assert (replace(PART, steps=2).compute()["first"] == -1).any()
    typical = replace(PART, typical=True).compute()
    assert typical["start"].tolist() == [200**-0.5]
    assert typical["first"].shape == (1,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"process": replace(PROCESS, num_neurons=2)}, "one neuron"),
        ({"level": 2.0}, "level=2"),
        ({"steps": 0}, "steps=0"),
    ],
)
def test_what_is_wrong_is_said(change, words):
    with pytest.raises(HeadstartError, match=words):
        replace(PART, **change)
