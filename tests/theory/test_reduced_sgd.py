"""The reduced chain against SGD in d dimensions, its kernels against NumPy, and what is said of wrong arguments.

Laws are compared by Kolmogorov and Smirnov's test of two samples with fixed seeds, at the level 0.001 each.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, ks_2samp, kstest, norm

from headstart import HeadstartError
from headstart.core.encoding import decode, encode
from headstart.core.streams import Stream
from headstart.tasks import Committee, Erf, Hermite, HermiteSum, ProductOf, Relu, Series, Sign, Tanh
from headstart.theory import Objective, Process, RecoveryRuns, ReducedSGD, Switch, simulate
from headstart.theory.reduced_sgd.chain import State, batch_sums, moved, roots
from headstart.theory.reduced_sgd.draws import chi_squares, cold_start, wishart_roots
from headstart.theory.reduced_sgd.moments import grid_of, moments

LEVEL = 1e-3
CORRELATION = Objective.CORRELATION
HE3 = ReducedSGD(Hermite(3), Hermite(3), dim=6, batch=4, rate=0.02)
PAIR = replace(HE3, num_neurons=2, rate=0.1)


def direct(process, runs, steps, seed, start=None):
    """SGD on inputs in d dimensions as it is written: M and Q at the end; W* is the first k axes."""
    rng = np.random.default_rng(seed)
    p, k, d, a = process.num_neurons, process.num_directions, process.dim, process.weights
    w = rng.normal(size=(runs, p, d)) if start is None else np.tile(start, (runs, 1, 1))
    w /= np.linalg.norm(w, axis=2, keepdims=True)
    mse, start_loss, since = np.full(runs, process.loss is Objective.MSE), None, np.full(runs, -1)
    for step in range(steps):
        z = rng.normal(size=(runs, process.batch, d))
        y = process.target(z[..., :k]) + np.sqrt(process.noise) * rng.normal(size=z.shape[:2])
        lam = np.einsum("rnd,rpd->rnp", z, w)
        error = y - process.student(lam) @ a
        c = np.where(mse[:, None], error, y)[..., None] * a * process.student.slope(lam)
        down = np.einsum("rnp,rnd->rpd", c, z) / process.batch
        if process.spherical:
            down -= (down * w).sum(axis=2, keepdims=True) * w
        rate = np.full(runs, process.rate)
        if process.switch:
            on = since >= 0
            rate[on] *= process.switch.rate * process.switch.decay ** (step - since[on] - 1)
            loss = (error**2).mean(axis=1) / 2
            start_loss = loss if step == 0 else start_loss
            falls = ~on & (loss < process.switch.below * start_loss)
            since[falls], mse[falls] = step, True
        w = w + rate[:, None, None] * down
        w /= np.linalg.norm(w, axis=2, keepdims=True)
    return w[:, :, :k], w @ w.transpose(0, 2, 1)


def numbers_of(overlaps, gram):
    """What is compared of M and Q: some of their numbers, and sums that tell how these go together."""
    m, q = overlaps.reshape(len(overlaps), -1), gram[:, 0, 1:]
    rows = {"first overlap": m[:, 0], "all overlaps": (m**2).sum(axis=1)}
    if m.shape[1] > 1:
        rows["two overlaps"] = m[:, 0] + m[:, -1]
    if q.shape[1]:
        rows |= {"two neurons": q[:, 0], "neurons and overlaps": q[:, -1] + m[:, 0] * m[:, -1]}
    return rows


def assert_same_law(process, steps, runs=8000, start=None):
    given = None if start is None else (start[:, : process.num_directions], start @ start.T)
    chain = simulate(process, runs, steps, seed=1, compiled=False, start=given)
    reduced = numbers_of(chain.overlaps[:, 0], chain.gram[:, 0])
    for name, drawn in numbers_of(*direct(process, runs, steps, 2, start)).items():
        assert ks_2samp(reduced[name], drawn).pvalue > LEVEL, name


SINGLE = {
    "squared error": (HE3, 3),
    "large steps": (replace(HE3, rate=0.3, batch=2), 2),
    "correlation": (replace(HE3, loss=CORRELATION, rate=0.05), 3),
    "spherical": (replace(HE3, spherical=True, dim=4, rate=0.1), 2),
    "noise": (replace(HE3, noise=2.0, batch=3, student=Erf(), rate=0.8), 3),
    "two dimensions": (replace(HE3, dim=2, link=Hermite(2), student=Tanh(), rate=0.5), 3),
    "one sample": (replace(HE3, batch=1, link=Sign(), student=Relu(), rate=1.0), 4),
    "a readout": (replace(HE3, readout=(-0.5,), link=Series((0, 1, 0, 0.5)), student=Tanh(), rate=1.0), 3),
    "a switch of the loss": (replace(HE3, loss=CORRELATION, switch=Switch(0.8, 0.5, 0.9), rate=0.05), 4),
}


@pytest.mark.parametrize("name", SINGLE)
def test_one_neuron_has_the_law_of_sgd_in_all_dimensions(name):
    process, steps = SINGLE[name]
    assert_same_law(process, steps, 20_000)


WIDE = {
    "two neurons": (PAIR, 3),
    "two neurons, correlation, noise": (replace(PAIR, loss=CORRELATION, noise=1.0, batch=2), 2),
    "two neurons, spherical": (replace(PAIR, spherical=True, readout=(1.0, -2.0)), 2),
    "a committee of two directions": (replace(PAIR, link=Committee(Erf(), 2), student=Erf(), batch=1, rate=2.0), 3),
    "a product of three directions": (replace(PAIR, link=ProductOf(Tanh(), 3), student=Tanh(), rate=2.0, dim=5), 3),
    "more rows than dimensions": (replace(PAIR, num_neurons=4, dim=3, rate=0.2), 3),
    "a function of two numbers": (replace(PAIR, link=lambda z: z[..., 0] * z[..., 1], directions=2, rate=0.5), 2),
    "a switch of the loss": (replace(PAIR, loss=CORRELATION, switch=Switch(0.8, 0.5, 0.9)), 4),
}


@pytest.mark.parametrize("name", WIDE)
def test_several_neurons_have_the_law_of_sgd_in_all_dimensions(name):
    assert_same_law(*WIDE[name])


def test_rows_that_lie_in_each_others_span_leave_a_dimension_more_to_the_rest():
    first, axis = np.eye(4)[1], np.eye(4)[0]
    equal = replace(PAIR, dim=4, readout=(1.0, -0.5), rate=0.2, batch=2)
    assert_same_law(equal, 2, start=np.stack((first, first)))
    # On the target itself, and moved away by noise.
    assert_same_law(replace(HE3, dim=4, noise=1.0, rate=0.1), 1, start=axis[None])


@pytest.mark.parametrize("spherical", [False, True])
@pytest.mark.parametrize("loss", Objective)
def test_the_mean_step_of_two_neurons_is_that_of_the_overlap_process(loss, spherical):
    process = replace(PAIR, loss=loss, spherical=spherical, noise=0.3, rate=0.03)
    shared = ("link", "student", "dim", "batch", "rate", "loss", "num_neurons", "noise", "spherical")
    m, q, n = np.array([[0.6], [-0.2]]), np.array([[1.0, 0.1], [0.1, 1.0]]), 40_000
    dm, dq = Process(**{name: getattr(process, name) for name in shared}).change(m, q)
    state = State.at(np.arange(n), np.tile(m, (n, 1, 1)), np.tile(q - m @ m.T, (n, 1, 1)))
    turns, rank = roots(state.rest, 5)
    sums = batch_sums(process, 0, state, turns, np.full(n, loss is Objective.MSE))
    overlaps, rest = moved(process, 0, state, turns, rank, sums, np.full(n, process.rate))
    for drawn, mean in ((overlaps, m + dm), (rest + overlaps @ overlaps.transpose(0, 2, 1), q + dq)):
        error = np.abs(drawn.mean(axis=0) - mean)
        assert (error < 4.5 * drawn.std(axis=0) / np.sqrt(n)).all()


def test_the_test_of_laws_sees_one_degree_of_freedom_too_many():
    process, start = replace(HE3, rate=0.3, batch=2), np.array([[0.6, 0.8, 0, 0, 0, 0]])
    drawn = direct(process, 8000, 1, 2, start)[0][:, 0, 0]
    right, wrong = (simulate(replace(process, dim=d), 8000, 1, seed=1, compiled=False, start=0.6) for d in (6, 7))
    assert ks_2samp(right.overlap[:, 0], drawn).pvalue > LEVEL > ks_2samp(wrong.overlap[:, 0], drawn).pvalue


@pytest.mark.parametrize("dim", [2, 10, 10**9])
def test_a_cold_start_is_uniform_on_the_sphere(dim):
    m, rest = cold_start(0, np.arange(20_000), dim, 1, 1)
    assert kstest(m[:, 0, 0] ** 2, beta(0.5, (dim - 1) / 2).cdf).pvalue > LEVEL
    assert abs((m > 0).mean() - 0.5) < 0.015
    np.testing.assert_allclose(m[:, 0, 0] ** 2 + rest[:, 0, 0], 1.0)


@pytest.mark.parametrize("degrees", [1, 2, 3, 1000, 10**12])
def test_chi_squares_have_their_law(degrees):
    drawn = chi_squares(3, Stream.DATA, np.arange(20_000), degrees, lane=7)
    cdf = norm(degrees, np.sqrt(2 * degrees)).cdf if degrees > 10**9 else None
    assert kstest(drawn, cdf or "chi2", args=() if cdf else (degrees,)).pvalue > LEVEL


@pytest.mark.parametrize("degrees", [2, 5, 40])
def test_a_wishart_matrix_is_the_gram_matrix_of_gaussian_rows(degrees):
    root = wishart_roots(4, Stream.DATA, np.arange(10_000), np.full(10_000, degrees), 3)
    rows = np.random.default_rng(5).normal(size=(10_000, 3, degrees))
    for ours, theirs in zip(*(x @ x.transpose(0, 2, 1) for x in (root, rows)), strict=False):
        assert ours.shape == theirs.shape
    ours, theirs = root @ root.transpose(0, 2, 1), rows @ rows.transpose(0, 2, 1)
    for i, j in ((0, 0), (2, 2), (1, 0), (2, 1)):
        assert ks_2samp(ours[:, i, j], theirs[:, i, j]).pvalue > LEVEL
    assert ks_2samp(np.linalg.det(ours[:, 1:, 1:]), np.linalg.det(theirs[:, 1:, 1:])).pvalue > LEVEL


def test_a_root_has_the_rank_of_its_matrix():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(5, 6, 2)) * np.logspace(0, -8, 6)[:, None]
    matrices = factors @ factors.transpose(0, 2, 1)
    matrices[3] = 0
    found, rank = roots(matrices, 6)
    assert rank.tolist() == [2, 2, 2, 0, 2]
    np.testing.assert_allclose(found @ found.transpose(0, 2, 1), matrices, rtol=1e-9, atol=1e-30)
    assert roots(matrices, 1)[1].tolist() == [1, 1, 1, 0, 1]


NAMED = {
    "odd batch": replace(HE3, batch=701, dim=100),
    "noise": replace(HE3, batch=700, dim=100, noise=0.5, loss=CORRELATION),
    "one sample": replace(HE3, batch=1, link=Sign(), student=Erf(), rate=1.0),
    "spherical": replace(HE3, batch=3, link=Relu(), student=Tanh(), rate=1.0, spherical=True),
    "a kink": replace(HE3, batch=30, link=HermiteSum(((1.0, (2,)),)), student=Relu(), rate=0.3),
    "a switch": replace(HE3, batch=40, loss=CORRELATION, switch=Switch(0.9), rate=0.1),
    "two neurons": replace(PAIR, batch=701, dim=20),
    "singular": replace(PAIR, num_neurons=5, dim=3, batch=20, noise=0.1),
    "committee": replace(PAIR, link=Committee(Erf(), 2), student=Erf(), rate=1.0, batch=300, noise=0.1),
    "product": replace(PAIR, link=ProductOf(Tanh(), 3), student=Tanh(), num_neurons=6, dim=30, batch=30, rate=1.0),
    "terms": replace(PAIR, link=HermiteSum(((1, (1,)), (0.5, (2, 3)))), student=Relu(), spherical=True, dim=30),
    "switch, wide": replace(PAIR, batch=50, loss=CORRELATION, switch=Switch(0.9), rate=0.3),
}


@pytest.mark.parametrize("name", NAMED)
def test_kernels_take_the_steps_of_numpy(name):
    process = NAMED[name]
    kernel, plain = (simulate(process, 6, 12, seed=5, record=range(13), compiled=way) for way in (True, False))
    np.testing.assert_allclose(kernel.overlaps, plain.overlaps, atol=2e-5)
    np.testing.assert_allclose(kernel.gram, plain.gram, atol=2e-5)
    np.testing.assert_array_equal(kernel.switched, plain.switched)
    assert process.switch is None or (kernel.switched > 0).any()
    assert np.abs(np.diff(plain.overlaps, axis=1)).max() > 0.01


@pytest.mark.parametrize("process", [replace(HE3, batch=3, rate=0.05), replace(PAIR, batch=5)], ids=["one", "two"])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_run_is_the_same_alone_in_a_crowd_and_in_threads(process, compiled):
    keep = {"seed": 7, "record": (0, 3, 40), "stop_at": 0.9, "compiled": compiled}
    crowd = simulate(process, 300, 40, **keep)
    assert 0 < crowd.reached.sum() < 300
    for other, rows in (
        (simulate(process, 300, 40, **keep, threads=3), slice(None)),
        (simulate(process, [11, 250], 40, **keep), [11, 250]),
    ):
        np.testing.assert_array_equal(other.overlaps, crowd.overlaps[rows])
        np.testing.assert_array_equal(other.gram, crowd.gram[rows])
        np.testing.assert_array_equal(other.first, crowd.first[rows])


def test_a_run_ends_where_it_reaches_its_level_or_goes_on():
    process = replace(HE3, dim=20, batch=1000, rate=0.02)
    every = range(31)
    whole = simulate(process, 60, 30, record=every, stop_at=0.8, go_on=True)
    short = simulate(process, 60, 30, record=every, stop_at=0.8)
    passed = np.abs(whole.overlap) >= 0.8
    expected = np.where(passed.any(axis=1), passed.argmax(axis=1), -1)
    assert 0 < (expected > 0).sum() < 60
    np.testing.assert_array_equal(whole.first, expected)
    np.testing.assert_array_equal(short.first, expected)
    ended = np.where(expected >= 0, expected, 30)
    np.testing.assert_array_equal(short.samples, 1000 * ended)
    np.testing.assert_array_equal(np.isnan(short.overlap), np.arange(31) > ended[:, None])
    np.testing.assert_array_equal(short.overlap[~np.isnan(short.overlap)], whole.overlap[~np.isnan(short.overlap)])
    assert (whole.samples == 30_000).all()
    assert whole.horizon == 30


def test_runs_on_the_right_side_recover_first():
    process = replace(HE3, dim=100, batch=2000, rate=0.05, loss=CORRELATION)
    found = simulate(process, 100, 60, stop_at=0.5)
    assert 30 < found.right_side.sum() < 70
    np.testing.assert_array_equal(found.right_side, found.start[:, 0, 0] > 0)
    times = np.where(found.reached, found.first, 60)
    assert 1.5 * np.median(times[found.right_side]) < np.median(times[~found.right_side])
    folded = simulate(found.process, 100, 60, stop_at=0.5, right_side_only=True)
    np.testing.assert_allclose(folded.start, np.abs(found.start))


@pytest.mark.parametrize(
    ("link", "student", "readout", "sides"),
    [
        (Hermite(3), Erf(), None, [True, False]),  # c_3 of erf is negative
        (Hermite(3), Relu(), None, [False, False]),  # and of relu 0
        (Hermite(2), Relu(), None, [True, True]),
        (Hermite(2), Relu(), (-1.0,), [False, False]),
        (Hermite(2), Tanh(), None, [False, False]),
        (Sign(), Tanh(), None, [True, True]),
        (lambda z: z**3 - 3 * z, Hermite(3), None, [False, True]),
    ],
)
def test_sides_are_those_of_the_least_degree_that_both_links_have(link, student, readout, sides):
    process = ReducedSGD(link, student, 50, 10, 0.1, readout=readout)
    assert process.right_side(np.array([-0.1, 0.1])).tolist() == sides
    if not any(sides):
        with pytest.raises(HeadstartError, match="right_side_only"):
            simulate(process, 2, 0, right_side_only=True)


MOMENTS = {
    "polynomials": replace(HE3, dim=300, batch=20_000, noise=0.3),
    "correlation": replace(HE3, dim=300, batch=20_000, loss=CORRELATION, rate=0.05),
    "kinks": replace(HE3, dim=300, batch=20_000, link=Sign(), student=Relu(), rate=0.3, readout=(0.5,)),
    "smooth": replace(HE3, dim=300, batch=20_000, link=Relu(), student=Tanh(), rate=0.3, spherical=True, noise=0.1),
}


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("m", [0.0, 0.4, -0.97])
def test_moments_are_those_of_samples(name, m):
    process, num = MOMENTS[name], 400_000
    b, rng = np.sqrt(1 - m**2), np.random.default_rng(1)
    x, y, xi = rng.normal(size=(3, num))
    error = (
        process.target(x[:, None]) + np.sqrt(process.noise) * xi - process.weights[0] * process.student(m * x + b * y)
    )
    e = error if process.loss is Objective.MSE else process.target(x[:, None])
    c = process.weights[0] * process.student.slope(m * x + b * y) * e
    terms = np.stack((c * x, c * y, c**2))
    on_mse = np.array([process.loss is Objective.MSE])
    means, covariance, loss = moments(process, grid_of(process), np.array([m]), np.array([b]), on_mse)
    assert (np.abs(means[0] - terms.mean(axis=1)) < 4.5 * terms.std(axis=1) / np.sqrt(num)).all()
    assert abs(loss[0] - (error**2).mean() / 2) < 4.5 * (error**2).std() / 2 / np.sqrt(num)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance[0] + 1e-12 * np.eye(3)), terms - means[0][:, None])
    # Fourth moments of polynomials are heavy: only those without c^2 are well estimated.
    np.testing.assert_allclose(np.cov(whitened[:2]), np.eye(2), atol=0.15)


def test_quadratures_of_both_kinds_agree():
    m, b, on_mse = (
        np.array([-1.0, 0.0, 0.3, 0.999]),
        np.sqrt(1 - np.array([-1.0, 0.0, 0.3, 0.999]) ** 2),
        np.ones(4, bool),
    )
    process = replace(HE3, noise=0.2, link=Series((0.5, 1, 0.2)))
    polar = grid_of(replace(process, student=Tanh()))
    assert polar.polar
    for fixed, turned in zip(
        moments(process, grid_of(process), m, b, on_mse), moments(process, polar, m, b, on_mse), strict=True
    ):
        np.testing.assert_allclose(turned, fixed, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MOMENTS)
def test_sums_from_moments_have_the_law_of_the_exact_chain_and_say_that_they_are_not_it(name):
    process = MOMENTS[name]
    rough, exact = (simulate(process, 300, 4, seed=s, start=0.2, exact=e) for s, e in ((1, False), (2, True)))
    assert (rough.exact, exact.exact) == (False, True)
    assert ks_2samp(rough.overlap[:, 0], exact.overlap[:, 0]).pvalue > LEVEL
    plain = simulate(process, range(2), 4, seed=1, start=0.2, exact=False, compiled=False)
    np.testing.assert_allclose(plain.overlap, rough.overlap[:2], atol=1e-9)


def test_too_many_draws_are_sums_from_moments_unless_exactness_is_asked_for():
    huge = ReducedSGD(Hermite(2), Hermite(2), dim=2**32, batch=2**32, rate=0.2, loss=CORRELATION)
    found = simulate(huge, 50, 60, stop_at=0.5)
    assert not found.exact
    assert found.reached.all()
    assert 20 < np.median(found.first) < 30
    small = replace(huge, batch=100)
    assert simulate(small, 1, 3, record=(0,), stop_at=1e-9).exact  # a horizon far beyond what is run


def test_a_billion_dimensions_cost_no_more_than_a_hundred():
    found = simulate(replace(HE3, dim=10**9, batch=2, rate=1e-9), 3, 2)
    assert found.exact
    assert 0 < np.abs(found.overlap).max() < 1e-3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dim": 0}, "dim=0"),
        ({"batch": 2.5}, "batch=2.5"),
        ({"rate": 0}, "rate=0"),
        ({"noise": -1}, "noise=-1"),
        ({"link": Hermite}, "link"),
        ({"student": Sign()}, "slope"),
        ({"loss": "hinge"}, "Objective"),
        ({"switch": Switch()}, "CORRELATION"),
        ({"readout": (1.0, 2.0)}, "readout"),
        ({"directions": 7, "link": lambda z: z[..., 0]}, "7 directions"),
        ({"directions": 2, "link": ProductOf(Tanh(), 3)}, "takes 3"),
    ],
)
def test_a_process_that_is_none_is_refused(change, said):
    with pytest.raises(HeadstartError, match=said):
        replace(HE3, **change)


@pytest.mark.parametrize(
    ("process", "arguments", "said"),
    [
        (HE3, {"runs": 0}, "runs=0"),
        (HE3, {"runs": [2**23]}, "runs"),
        (HE3, {"steps": -1}, "steps=-1"),
        (HE3, {"record": [3]}, "record"),
        (HE3, {"stop_at": 0}, "stop_at"),
        (HE3, {"seed": -1}, "seed"),
        (HE3, {"threads": 0}, "threads"),
        (HE3, {"start": 1.5}, "start"),
        (HE3, {"start": (np.zeros((2, 1)), np.eye(2))}, r"\[1, 1\]"),
        (replace(PAIR, dim=2), {"start": (np.zeros((2, 1)), np.eye(2))}, "2 dimensions"),
        (PAIR, {"right_side_only": True}, "one neuron"),
        (PAIR, {"exact": False}, "one neuron"),
        (HE3, {"exact": False}, "not Gaussian"),
        (replace(HE3, link=lambda z: z), {"compiled": True}, "no kernels"),
    ],
)
def test_a_simulation_that_cannot_be_is_refused(process, arguments, said):
    with pytest.raises(HeadstartError, match=said):
        simulate(process, **{"runs": 2, "steps": 2, **arguments})


@pytest.mark.parametrize("change", [{"below": 0.0}, {"rate": -1}, {"decay": 1.5}])
def test_a_switch_that_is_none_is_refused(change):
    with pytest.raises(HeadstartError, match=next(iter(change))):
        Switch(**change)


def test_a_part_of_a_study_has_the_arrays_of_its_simulation_and_comes_back_from_a_store():
    part = RecoveryRuns(replace(HE3, loss=CORRELATION, switch=Switch()), 5, 4, record=(0, 4), stop_at=0.9, seed=3)
    assert decode(encode(part)) == part
    arrays, found = part.compute(), simulate(part.process, 5, 4, 3, record=(0, 4), stop_at=0.9)
    for name in ("first", "samples", "start", "overlaps", "gram", "right_side"):
        np.testing.assert_array_equal(arrays[name], getattr(found, name))
    assert arrays["exact"]
    assert "right_side" not in RecoveryRuns(PAIR, 2, 1).compute()
    large = replace(PAIR, num_neurons=30, batch=10**5)
    assert RecoveryRuns(large, 4, 100).seconds > 10 * RecoveryRuns(replace(HE3, batch=10**5), 4, 100).seconds
    for change in ({"process": 3}, {"num_runs": 0}, {"steps": 0}, {"seed": -1}):
        with pytest.raises(HeadstartError, match=next(iter(change))):
            replace(part, **change)


def test_an_error_in_a_thread_is_that_of_the_call():
    def broken(z):
        raise RuntimeError("no label")

    with pytest.raises(RuntimeError, match="no label"):
        simulate(replace(HE3, link=broken), 40, 3, threads=2)
