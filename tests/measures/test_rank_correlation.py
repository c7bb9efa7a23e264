"""How early candidates tell which will be best: against scipy and the definitions, and where the answer is known."""

import numpy as np
import pytest
from scipy import stats

import headstart as hs
from headstart.measures import (
    change_point,
    correlations,
    recall,
    regrets,
    self_correlation,
    successive_halving,
    trailing_mean,
    transition,
)

RNG = np.random.default_rng(0)
CURVES, FINAL = RNG.standard_normal((30, 12)), RNG.standard_normal(30)


def test_a_trailing_mean_looks_back_alone_and_begins_unsmoothed():
    assert trailing_mean(np.array([[4.0, 2.0, 0.0, 7.0]]), 3).tolist() == [[4.0, 3.0, 2.0, 3.0]]
    np.testing.assert_allclose(trailing_mean(CURVES, 1), CURVES, atol=1e-12)


def test_correlations_are_those_of_scipy_with_ties_too():
    curves = CURVES.round(1)
    for record in range(12):
        column = curves[:, record]
        assert correlations(curves, FINAL)[record] == pytest.approx(stats.spearmanr(column, FINAL).statistic)
        assert correlations(curves, FINAL, ranks=False)[record] == pytest.approx(np.corrcoef(column, FINAL)[0, 1])
    heatmap = self_correlation(curves)
    assert heatmap[2, 7] == pytest.approx(stats.spearmanr(curves[:, 2], curves[:, 7]).statistic)
    np.testing.assert_allclose(np.diag(heatmap), 1)
    with pytest.raises(hs.HeadstartError, match="at least two candidates"):
        correlations(CURVES[:1], FINAL[:1])


def test_recall_and_regret_are_as_defined():
    final = np.array([3.0, 1.0, 2.0, 5.0])
    curves = np.array([[0.0, 4.0], [2.0, 1.0], [1.0, 3.0], [9.0, 9.0]])
    assert [recall(curves, final, k).tolist() for k in (1, 2, 3)] == [[False, True], [False, True], [True, True]]
    assert regrets(curves, final).tolist() == [0.5, 0.0]
    assert regrets(curves, final, relative=False).tolist() == [2.0, 0.0]
    assert regrets(final[:, None], final).tolist() == [0.0]  # the oracle


def test_halving_keeps_the_better_half_and_counts_what_it_trained():
    steps = np.array([0, 10, 20, 40])
    # Candidate 0 is worst until the end, so that halving loses it; of the two left, 2 is better later.
    curves = np.array([[9, 9, 9, 0], [1, 1, 4, 4], [2, 2, 3, 3], [3, 3, 2, 2.0]])
    halved = successive_halving(curves, steps, (10, 20, 40))
    assert (halved.choice, halved.steps) == (2, 4 * 10 + 2 * 10 + 1 * 20)
    alone = successive_halving(curves, steps, (40,))
    assert (alone.choice, alone.steps) == (0, 160)
    with pytest.raises(hs.HeadstartError, match=r"rungs=\(15,\)"):
        successive_halving(curves, steps, (15,))


def test_the_transition_is_found_where_the_ranking_changes_once():
    early, late = RNG.standard_normal((2, 30))
    curves = np.where(np.arange(20) < 7, early[:, None], late[:, None]) + 0.2 * RNG.standard_normal((30, 20))
    assert change_point(self_correlation(curves)) == 7
    found = transition(curves, np.arange(20) * 10)
    assert found.low <= found.value == 70 <= found.high
    assert found.high - found.low <= 20
    with pytest.raises(hs.HeadstartError, match="at least three"):
        change_point(np.ones((2, 2)))
