"""The line between two networks."""

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.state import State
from headstart.measures import barrier, interpolate, is_connected, line_points

ONE = State(
    weights={"w": np.array([[1.0, 2.0]], dtype=np.float32), "b": np.array(0.1)},
    buffers={
        "norm.running_mean": np.array([1.0, -1.0], dtype=np.float32),
        "norm.running_var": np.array([0.5, 3.0], dtype=np.float32),
        "norm.num_batches_tracked": np.array(7),
    },
    moments={"exp_avg/w": np.ones((1, 2))},
)
OTHER = State(
    weights={"w": np.array([[3.0, 1.1]], dtype=np.float32), "b": np.array(0.7)},
    buffers={
        "norm.running_mean": np.array([3.0, 0.0], dtype=np.float32),
        "norm.running_var": np.array([2.0, 1.0], dtype=np.float32),
        "norm.num_batches_tracked": np.array(9),
    },
)


def test_half_way_is_the_mean_of_weights_and_buffers():
    half = interpolate(ONE, OTHER, 0.5)
    np.testing.assert_array_equal(half.weights["w"], np.array([[2.0, 1.55]], dtype=np.float32))
    np.testing.assert_array_equal(half.buffers["norm.running_mean"], [2.0, -0.5])
    np.testing.assert_array_equal(half.buffers["norm.running_var"], [1.25, 2.0])


def test_the_ends_are_the_networks_themselves_bit_for_bit():
    for alpha, end in ((0, ONE), (1, OTHER)):
        found = interpolate(ONE, OTHER, alpha)
        for mine, theirs in ((found.weights, end.weights), (found.buffers, end.buffers)):
            assert {name: value.tobytes() for name, value in mine.items()} == {
                name: value.tobytes() for name, value in theirs.items()
            }


def test_the_line_between_a_network_and_itself_is_that_network():
    for alpha in line_points(16):
        found = interpolate(OTHER, OTHER, alpha)
        assert all(np.array_equal(value, OTHER.weights[name]) for name, value in found.weights.items())


def test_types_stay_and_the_ends_are_not_changed():
    before = ONE.weights["w"].copy()
    found = interpolate(ONE, OTHER, 0)
    found.weights["w"][:] = 0
    np.testing.assert_array_equal(ONE.weights["w"], before)
    assert interpolate(ONE, OTHER, 0.3).weights["w"].dtype == np.float32
    assert interpolate(ONE, OTHER, 0.3).weights["b"].dtype == np.float64


def test_beyond_the_ends_the_line_goes_on_and_variances_stay_at_zero():
    found = interpolate(ONE, OTHER, -1)
    np.testing.assert_allclose(found.weights["w"], [[-1.0, 2.9]], rtol=1e-6)
    np.testing.assert_array_equal(found.buffers["norm.running_var"], [0.0, 5.0])
    np.testing.assert_array_equal(found.buffers["norm.running_mean"], [-1.0, -2.0])


@pytest.mark.parametrize(("alpha", "num"), [(-1, 7), (0.5, 7), (0.51, 9), (2, 9)])
def test_integers_are_those_of_the_nearer_end(alpha, num):
    found = interpolate(ONE, OTHER, alpha).buffers["norm.num_batches_tracked"]
    assert found == num
    assert found.dtype == ONE.buffers["norm.num_batches_tracked"].dtype


def test_what_the_optimizer_remembers_is_not_of_the_line():
    assert interpolate(ONE, OTHER, 0.5).moments == {}


def test_states_of_two_architectures_have_no_line():
    wider = State(weights={**ONE.weights, "w": np.zeros((1, 3))}, buffers=ONE.buffers)
    with pytest.raises(HeadstartError, match=r"weights 'w'.*\(1, 2\) and \(1, 3\).*one architecture"):
        interpolate(ONE, wider, 0.5)
    with pytest.raises(HeadstartError, match=r"buffers 'norm.num_batches_tracked'.*\(\) and none"):
        interpolate(ONE, State(weights=ONE.weights), 0.5)
    with pytest.raises(HeadstartError, match="alpha=nan"):
        interpolate(ONE, OTHER, float("nan"))


def test_line_points_are_even_and_have_both_ends_exactly():
    points = line_points(76)
    assert (points[0], points[25], points[50], points[-1], len(points)) == (-1, 0, 1, 2, 76)
    np.testing.assert_allclose(np.diff(points), 0.04)
    with pytest.raises(HeadstartError, match=r"num=75.*such as 76"):
        line_points(75)


def test_the_barrier_is_the_largest_fall_below_the_line_between_the_ends():
    alpha = np.array([-1, 0, 0.25, 0.5, 1, 2])
    assert barrier([0.0, 0.8, 0.6, 0.85, 1.0, 0.0], alpha) == pytest.approx(0.25)


def test_there_is_no_barrier_on_or_above_the_line_whatever_lies_beyond():
    alpha = line_points(76)
    assert barrier(0.2 * alpha, alpha) == pytest.approx(0, abs=1e-15)
    assert barrier(np.where((alpha >= 0) & (alpha <= 1), 0.9, 0.1), alpha) == 0
    assert barrier(-((alpha - 0.5) ** 2), alpha) == 0


def test_connected_is_within_two_percent():
    alpha = [0, 0.5, 1]
    assert is_connected([0.9, 0.881, 0.9], alpha)
    assert not is_connected([0.9, 0.879, 0.9], alpha)
    assert is_connected([0.9, 0.7, 0.9], alpha, within=0.21)
    assert not is_connected([0.9, float("nan"), 0.9], alpha)


def test_a_barrier_asks_for_both_ends():
    with pytest.raises(HeadstartError, match=r"alpha=\[0.0, 0.5\].*0 and 1"):
        barrier([1, 1], [0, 0.5])
    with pytest.raises(HeadstartError, match=r"shape \(2,\).*\(3,\)"):
        barrier([1, 1], [0, 0.5, 1])
