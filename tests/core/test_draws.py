"""Initial values in stretches: the same numbers as the streams say, in any stretch, by NumPy and by kernels."""

import numpy as np
import pytest

from headstart.core import draws
from headstart.core.streams import Stream, normals, uniforms, words
from headstart.models import MLP
from headstart.tasks import XorClusters

DRAWS = {
    "uniforms": (draws.symmetric_uniforms, lambda num: 0.3 * (2 * uniforms(5, Stream.INIT, [7], num)[0] - 1)),
    "normals": (draws.scaled_normals, lambda num: 0.3 * normals(5, Stream.INIT, [7], num)[0].astype(np.float64)),
}
every_draw = pytest.mark.parametrize(("draw", "formula"), DRAWS.values(), ids=DRAWS)
STRETCHES = [(0, 40), (0, 1), (3, 1), (1, 6), (5, 2), (8, 4), (7, 33)]


@pytest.mark.parametrize(("first", "num"), STRETCHES)
@pytest.mark.parametrize("draw", [words, uniforms, normals])
def test_a_stretch_of_a_stream_is_that_part_of_it(draw, first, num):
    whole = draw(3, Stream.DATA, [9, 2**40], 40)
    assert np.array_equal(draw(3, Stream.DATA, [9, 2**40], num, first), whole[:, first : first + num])


@every_draw
@pytest.mark.parametrize("longest", [10**9, 1], ids=["NumPy", "kernels"])
def test_any_stretch_of_initial_values_is_that_part_of_the_formula(draw, formula, longest, monkeypatch):
    monkeypatch.setattr(draws, "_LONG", longest)
    whole = formula(40).astype(np.float32)
    for first, num in STRETCHES:
        assert np.array_equal(draw(5, 7, first, num, 0.3), whole[first : first + num])


def test_kernels_and_numpy_draw_the_same_uniforms_far_along_and_normals_to_a_last_bit(monkeypatch):
    at, num = (2**32 - 1, 3, 10**9 + 1), 20_000
    drawn = {}
    for longest in (10**9, 1):
        monkeypatch.setattr(draws, "_LONG", longest)
        drawn[longest] = [draw(*at, num, 0.1) for draw, _ in DRAWS.values()]
    for one, two in zip(*drawn.values(), strict=True):
        np.testing.assert_array_max_ulp(one, two, maxulp=1)
    assert np.array_equal(drawn[1][0], drawn[10**9][0])


@pytest.mark.parametrize("init", ["torch_default", "gaussian"])
def test_rows_of_a_layer_are_drawn_without_the_others(init):
    model, signature = MLP(6, depth=3, init=init), XorClusters(9).signature
    whole = model.initial_weights(signature, 2)
    for parameter in model.parameters(signature):
        for first, after in ((0, parameter.shape[0]), (0, 1)):
            rows = model.initial_rows(parameter, 2, first, after)
            assert np.array_equal(rows, whole[parameter.name][first:after])
    (first_layer, *_) = model.parameters(signature)
    assert np.array_equal(model.initial_rows(first_layer, 2, 2, 5), whole["layers.0.weight"][2:5])
