"""Multi-index targets: their directions, their noise, their links, and what is said of wrong ones."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

import headstart as hs
from headstart.core.encoding import decode, encode
from headstart.core.streams import Stream
from headstart.tasks import Committee, Erf, Hermite, HermiteSum, MultiIndex, ProductOf, Relu, Series, Sign, Tanh
from headstart.tasks.gaussian_moments import gaussian_points, gaussian_variance

IDS = np.arange(2000)


def z(num, directions, seed=0):
    return np.random.default_rng(seed).standard_normal((num, directions))


# --- directions ---------------------------------------------------------------------------------------------------


def test_directions_are_orthonormal_and_the_first_do_not_depend_on_how_many_there_are():
    five = MultiIndex(40, Committee(Erf(), 5)).teacher(3)
    np.testing.assert_allclose(five @ five.T, np.eye(5), atol=1e-14)
    assert np.array_equal(five[:2], MultiIndex(40, ProductOf(Tanh(), 2)).teacher(3))
    # All of the space, where the last direction has no freedom left but its sign.
    whole = MultiIndex(3, Committee(Erf(), 3)).teacher(0)
    np.testing.assert_allclose(whole @ whole.T, np.eye(3), atol=1e-14)


def test_a_frame_is_uniform():
    # The squared coordinate of each row along any axis is Beta(1/2, (d - 1)/2); level 1e-3 each, fixed seeds.
    frames = np.array([MultiIndex(6, Committee(Erf(), 3)).teacher(seed) for seed in range(400)])
    for row in range(3):
        assert stats.kstest(frames[:, row, 4] ** 2, stats.beta(0.5, 2.5).cdf).pvalue > 1e-3
        assert abs(np.sign(frames[:, row, 1]).mean()) < 3.3 / sqrt(400)


def test_one_direction_without_noise_is_the_single_index_task():
    one, two = MultiIndex(12, Hermite(3)), hs.SingleIndex(12, Hermite(3))
    for stream in (Stream.DATA, Stream.EVALUATION):
        mine, other = one.sample(5, IDS, stream), two.sample(5, IDS, stream)
        assert np.array_equal(mine.x, other.x)
        assert np.array_equal(mine.y, other.y)
    assert one.variance == pytest.approx(two.variance)
    assert np.array_equal(one.random_labels(5, IDS, mine.x), two.random_labels(5, IDS, mine.x))


def test_samples_do_not_depend_on_the_blocks_they_are_drawn_in(monkeypatch):
    task = MultiIndex(10, ProductOf(Tanh(), 2), noise=0.3)
    whole = task.sample(1, IDS)
    monkeypatch.setattr("headstart.tasks.multi_index._BLOCK", 70)
    parts = task.sample(1, IDS)
    assert np.array_equal(whole.x, parts.x)
    assert np.array_equal(whole.y, parts.y)


# --- noise --------------------------------------------------------------------------------------------------------


def test_noise_belongs_to_the_id_has_its_variance_and_is_absent_where_runs_are_evaluated():
    clean, noisy = MultiIndex(8, Hermite(2)), MultiIndex(8, Hermite(2), noise=0.25)
    ids = np.array([7, 0, 7, 123_456_789_012])
    before, after = clean.sample(2, ids), noisy.sample(2, ids)
    assert np.array_equal(before.x, after.x)
    assert after.y[0] == after.y[2] != before.y[0]
    many = np.arange(4000)
    xi = (noisy.sample(2, many).y - clean.sample(2, many).y) / 0.5
    assert stats.kstest(xi, "norm").pvalue > 1e-3  # level 1e-3, fixed seed
    assert np.array_equal(noisy.sample(2, IDS, Stream.EVALUATION).y, clean.sample(2, IDS, Stream.EVALUATION).y)
    assert noisy.variance == clean.variance


def test_labels_with_noise_cannot_be_made_again_from_inputs():
    task = MultiIndex(8, Hermite(2), noise=0.25)
    with pytest.raises(hs.HeadstartError, match=r"MultiIndex\(noise=0\.25\).*use noise=0"):
        task.label(0, task.sample(0, IDS).x)


def test_random_labels_know_nothing_of_the_directions():
    task = MultiIndex(20, Committee(Hermite(1), 2), noise=0.5)
    data = task.sample(0, IDS)
    random = task.random_labels(0, IDS, data.x)
    hidden = data.x.astype(np.float64) @ task.teacher(0).T
    others = data.x.astype(np.float64) @ task._orthonormal(0, Stream.LABELS).T
    assert abs(np.corrcoef(random, others.sum(1))[0, 1]) > 0.6
    assert abs(np.corrcoef(random, hidden.sum(1))[0, 1]) < 0.5


# --- links --------------------------------------------------------------------------------------------------------

LINKS = [
    (ProductOf(Tanh(), 3), lambda v: np.tanh(v[:, 0] * v[:, 1] * v[:, 2])),
    (ProductOf(Hermite(2), 2), lambda v: (v[:, 0] * v[:, 1]) ** 2 - 1),
    (Committee(Relu(), 4), lambda v: np.maximum(v, 0).mean(1)),
    (Committee(Series((0, 1, 0, 0.5)), 2), lambda v: (v + 0.5 * (v**3 - 3 * v)).mean(1)),
    (HermiteSum.staircase(3), lambda v: v[:, 0] + v[:, 0] * v[:, 1] + v.prod(1)),
    (HermiteSum(((2, (0, 3)), (-1, (2,)))), lambda v: 2 * (v[:, 1] ** 3 - 3 * v[:, 1]) - v[:, 0] ** 2 + 1),
]


@pytest.mark.parametrize(("link", "formula"), LINKS, ids=[str(link)[:40] for link, _ in LINKS])
def test_a_link_is_its_formula_and_knows_its_variance(link, formula):
    rows = z(500, link.directions)
    np.testing.assert_allclose(link(rows), formula(rows), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(link.variance, gaussian_variance(link, link.directions), rtol=2e-3)
    task = MultiIndex(link.directions + 2, link)
    assert task.directions == link.directions
    assert task == MultiIndex(link.directions + 2, link, directions=link.directions)
    assert decode(encode(task), MultiIndex) == task
    assert hash(task) == hash(decode(encode(task)))


def test_terms_are_the_same_in_any_order_and_with_degrees_of_zero_left_out():
    one = HermiteSum(((1, (1, 0)), (2, (0, 2))))
    assert one == HermiteSum([(2.0, [0, 2]), (1.0, [1])])
    assert one.directions == 2


def test_a_product_or_committee_of_one_is_its_link():
    rows = z(50, 1)
    for link in (ProductOf(Tanh(), 1), Committee(Tanh(), 1)):
        np.testing.assert_allclose(link(rows), np.tanh(rows[:, 0]), rtol=1e-15)
        assert link.variance == pytest.approx(gaussian_variance(Tanh(), 1))


@pytest.mark.parametrize(
    ("link", "variance"), [(Hermite(4), 24), (Relu(), 0.5 - 0.5 / np.pi), (Sign(), 1), (Erf(), 1 / 3)], ids=str
)
def test_variances_of_links_of_one_number_are_exact_whether_smooth_or_not(link, variance):
    assert gaussian_variance(link, 1) == pytest.approx(variance, rel=1e-10)
    assert hs.SingleIndex(5, link).variance == pytest.approx(variance, rel=1e-10)


def test_grids_and_sobol_points_give_the_moments_of_normals():
    for num, tolerance in ((1, 1e-12), (2, 1e-10), (3, 1e-6), (5, 5e-3)):
        points, weights = gaussian_points(num)
        assert points.shape == (len(weights), num)
        assert weights.sum() == pytest.approx(1)
        np.testing.assert_allclose((weights[:, None] * points).T @ points, np.eye(num), atol=tolerance)


# --- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MultiIndex(5, Hermite(2), directions=3), r"directions=3.*takes 1.*ProductOf"),
        (lambda: MultiIndex(5, ProductOf(Tanh(), 3), directions=2), r"directions=2.*takes 3"),
        (lambda: MultiIndex(2, ProductOf(Tanh(), 3)), r"dim=2.*at least 3"),
        (lambda: MultiIndex(5, np.tanh), r"link=.*Hermite\(3\)"),
        (lambda: MultiIndex(5, Hermite), r"link=.*Hermite\(3\)"),
        (lambda: MultiIndex(5, Series((3,))).metrics, "constant"),
        (lambda: MultiIndex(5, noise=-1), "noise=-1"),
        (lambda: MultiIndex(0), "dim=0"),
        (lambda: MultiIndex(5, num_test=0), "num_test=0"),
        (lambda: hs.SingleIndex(5, Committee(Erf(), 2)), r"link of one number"),
        (lambda: ProductOf(np.tanh, 2), r"ProductOf\(link=.*link of one number"),
        (lambda: Committee(Erf(), 0), "directions=0"),
        (lambda: HermiteSum(()), "one term or more"),
        (lambda: HermiteSum(((1, (1,)), (2, (1, 0)))), "each with other degrees"),
        (lambda: HermiteSum(((0, (1,)),)), "coefficients are finite"),
        (lambda: HermiteSum(((1, (-1,)),)), "degrees are whole numbers"),
        (lambda: HermiteSum((1, 2)), "pairs of a coefficient and degrees"),
        (lambda: HermiteSum.staircase(0), "directions=0"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(hs.HeadstartError, match=words):
        make()
