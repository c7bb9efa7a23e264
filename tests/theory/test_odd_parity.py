"""The ceiling of two layers without biases on parities of odd degree."""

from itertools import product

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.theory import best_on_three, threshold_correlation, two_layer_ceiling

CUBE = np.array(list(product((-1, 1), repeat=3)))
PARITY = CUBE.prod(axis=1)


def test_no_threshold_function_of_three_signs_correlates_more_with_their_parity_than_stated():
    # Whole weights up to 2 and half-odd thresholds give all 104 threshold functions of three signs.
    weights = np.array(list(product(range(-2, 3), repeat=3)))
    values = CUBE @ weights.T
    functions = np.concatenate([np.where(values > t + 0.5, 1, -1) for t in range(-8, 8)], axis=1)
    assert len(np.unique(functions, axis=1).T) == 104
    assert np.abs(PARITY @ functions / 8).max() == threshold_correlation(3) == 0.5


@pytest.mark.parametrize(("degree", "accuracy"), [(1, 1.0), (3, 0.875), (5, 0.84375)])
def test_the_ceiling_falls_with_the_degree(degree, accuracy):
    assert two_layer_ceiling(degree) == accuracy


def test_six_neurons_without_biases_reach_the_ceiling_on_three_signs():
    w, a = best_on_three()
    f = np.maximum(CUBE @ w.T, 0) @ a
    assert np.mean(np.sign(f) == PARITY) == two_layer_ceiling(3)


def test_no_random_network_of_two_layers_without_biases_passes_the_ceiling():
    random = np.random.default_rng(0)
    w, a = random.standard_normal((20_000, 5, 3)), random.standard_normal((20_000, 5))
    f = np.einsum("nj,nxj->nx", a, np.maximum(np.einsum("xi,nji->nxj", CUBE, w), 0))
    assert 0.7 < np.mean(np.sign(f) == PARITY, axis=1).max() <= two_layer_ceiling(3)


@pytest.mark.parametrize("degree", [0, 2, -1, 3.0])
def test_an_even_degree_is_refused(degree):
    with pytest.raises(HeadstartError, match="give an odd degree"):
        two_layer_ceiling(degree)
