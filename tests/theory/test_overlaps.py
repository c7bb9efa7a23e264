"""The overlap process against SGD itself, its expectations by three routes, and its limits."""

from dataclasses import replace

import numpy as np
import pytest

from headstart import HeadstartError
from headstart.tasks import Committee, Erf, Hermite, ProductOf, Relu, Series, Sign, Tanh
from headstart.theory import Form, Kept, Objective, Process, escape_threshold, kept_terms, ode_path


def generator(seed):
    return np.random.Generator(np.random.Philox(key=seed))


def vectors(process, seed=3):
    """W [p, d] on the sphere with overlaps of order 1, and W* [k, d] orthonormal."""
    w = np.zeros((process.num_neurons, process.dim))
    w[:, :6] = generator(seed).normal(size=(process.num_neurons, 6))
    return w / np.linalg.norm(w, axis=1, keepdims=True), np.eye(process.dim)[: process.num_directions]


def overlaps(process, seed=3):
    w, teacher = vectors(process, seed)
    return w @ teacher.T, w @ w.T


def sgd(process, w, teacher, rng):
    """Rows of W [n, p, d] after one step on n fresh batches, before they are normalised."""
    z = rng.normal(size=(len(w), process.batch, process.dim))
    lam = np.einsum("nbd,npd->nbp", z, w)
    hidden = z @ teacher.T
    shape = hidden.shape[:2]
    one_number = not hasattr(process.link, "directions")
    y = process.link(hidden[..., 0] if one_number else hidden.reshape(-1, len(teacher))).reshape(shape)
    y = y + np.sqrt(process.noise) * rng.normal(size=shape)
    gains = np.array(process.readout or [1] * process.num_neurons) / process.num_neurons
    residual = y - process.student(lam) @ gains if process.loss is Objective.MSE else y
    pull = process.student.slope(lam) * residual[..., None]
    gradient = -gains[:, None] * np.einsum("nbp,nbd->npd", pull, z) / process.batch
    if process.spherical:
        gradient = gradient - np.einsum("npd,npd->np", gradient, w)[..., None] * w
    return w - process.rate * gradient


def normalised(w):
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


SMALL = {"dim": 30, "batch": 4, "rate": 0.3}
SETTINGS = [
    Process(Hermite(2), Hermite(2), **SMALL),
    Process(Hermite(3), Hermite(3), **SMALL, loss=Objective.CORRELATION, noise=0.5),
    Process(Erf(), Erf(), **SMALL, num_neurons=3, readout=(1.0, -2.0, 0.5), noise=0.1),
    Process(Committee(Erf(), 2), Erf(), **SMALL, num_neurons=2),
    Process(Hermite(2), Series((0.2, 1, 0.5)), **SMALL, num_neurons=3, readout=(1, 2, -1)),
    Process(Sign(), Relu(), **SMALL, noise=0.2),
    Process(Tanh(), Tanh(), **SMALL, num_neurons=2),
    Process(ProductOf(Tanh(), 2), Tanh(), **SMALL, num_neurons=2, loss=Objective.CORRELATION),
]


@pytest.mark.parametrize("spherical", [False, True])
@pytest.mark.parametrize("process", SETTINGS, ids=lambda s: f"{s.link}-{s.student}-{s.num_neurons}")
def test_a_step_has_the_means_of_sgd_itself(process, spherical):
    process = replace(process, spherical=spherical)
    w, teacher = vectors(process)
    num, sums, squares = 20_000, 0.0, 0.0
    rng = generator(7)
    for _ in range(num // 2000):
        after = sgd(process, np.broadcast_to(w, (2000, *w.shape)), teacher, rng)
        products = np.concatenate((after @ teacher.T, after @ after.transpose(0, 2, 1)), axis=2)
        sums, squares = sums + products.sum(axis=0), squares + (products**2).sum(axis=0)
    mean = sums / num
    error = np.sqrt((squares / num - mean**2) / num)
    m, q = overlaps(process)
    dm, dq = process.change(m, q)
    # About a hundred numbers in all, each within 4.2 standard errors: a right one fails once in 400 sets of tests.
    assert (np.abs(mean - np.concatenate((m + dm, q + dq), axis=1)) < 4.2 * error + 1e-9).all()


@pytest.mark.parametrize("spherical", [False, True])
def test_in_huge_batches_a_step_is_that_of_the_mean_gradient(spherical):
    process = Process(
        Committee(Erf(), 2), Erf(), 8, 10**15, 3.0, num_neurons=3, readout=(1, -2, 1), spherical=spherical
    )
    w, teacher = vectors(process)
    m, q = w @ teacher.T, w @ w.T
    seen = process.expectations(m, q)
    # E[s'_j E z] lies in the span of all rows and has these products with them.
    basis = np.concatenate((w, teacher))
    pull = np.linalg.lstsq(basis, np.concatenate((seen.gf, seen.psi), axis=1).T)[0].T
    if spherical:
        pull = pull - np.sum(pull * w, axis=1)[:, None] * w
    after = w + process.rate * np.array([[1], [-2], [1]]) / 3 * pull
    dm, dq = process.change(m, q)
    np.testing.assert_allclose(m + dm, after @ teacher.T, atol=1e-9)
    np.testing.assert_allclose(q + dq, after @ after.T, atol=1e-9)


@pytest.mark.parametrize(("student", "ratio"), [(Hermite(3), 0.73), (Hermite(2), 0.85), (Relu(), 0.95), (Erf(), 1.013)])
def test_the_papers_second_order_term_is_off_in_small_dimensions(student, ratio):
    m, q = np.array([[0.2]]), np.eye(1)
    terms = []
    for form in (Form.PAPER, Form.EXACT):
        process = Process(student, student, 30, 4, 1.0, form=form)
        seen = process.expectations(m, q)
        terms.append(float(process.change(m, q)[1][0, 0] - 2 * seen.gf[0, 0]))
    assert terms[0] / terms[1] == pytest.approx(ratio, abs=0.006)


@pytest.mark.parametrize("spherical", [False, True])
@pytest.mark.parametrize("process", SETTINGS[:5], ids=str)
def test_the_forms_agree_for_large_dimensions_and_batches(process, spherical):
    process = replace(process, spherical=spherical, dim=10**7, batch=10**6)
    m, q = overlaps(replace(process, dim=10))
    exact, paper = (replace(process, form=form).step(m, q) for form in (Form.EXACT, Form.PAPER))
    np.testing.assert_allclose(exact[0], paper[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(exact[1], paper[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("rate", "ratio", "first_order"), [(0.02, 0.220, 0.200), (0.04, 0.256, 0.174), (0.08, -0.056, 0.040)]
)
def test_one_step_of_the_ratio_map_and_of_the_first_order_form(rate, ratio, first_order):
    process = Process(Hermite(3), Hermite(3), 100, 20_000, rate, form=Form.PAPER)
    m, q = np.array([[0.2]]), np.eye(1)
    dm, dq = process.change(m, q)
    assert process.step(m, q)[0][0, 0] == pytest.approx(ratio, abs=6e-4)
    assert (m + dm - m / 2 * dq)[0, 0] == pytest.approx(first_order, abs=6e-4)


def test_a_path_is_the_mean_of_runs_of_sgd():
    process = Process(Hermite(2), Hermite(2), 150, 300, 0.02)
    w = np.zeros((24, 1, process.dim))
    w[:, 0, 0], w[:, 0, 1] = 0.3, np.sqrt(1 - 0.09)
    rng, teacher, path = generator(1), np.eye(process.dim)[:1], []
    for _ in range(30):
        w = normalised(sgd(process, w, teacher, rng))
        path.append(w[:, 0, 0])
    path = np.array(path)
    ours = process.run(np.array([[0.3]]), np.eye(1), 30)[0][1:, 0, 0]
    # The mean of the ratio is not the ratio of means: 0.01 is allowed for it, beside 4 standard errors.
    assert (np.abs(path.mean(axis=1) - ours) < 0.01 + 4 * path.std(axis=1) / np.sqrt(24)).all()
    assert ours[-1] > 0.6


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("spherical", [False, True])
@pytest.mark.parametrize("loss", Objective)
@pytest.mark.parametrize("student", [Hermite(3), Tanh(), Relu()])
def test_many_overlaps_at_once_take_the_steps_of_one(student, loss, spherical, form):
    process = Process(Hermite(3), student, 50, 20, 0.01, loss, spherical=spherical, form=form, noise=0.1)
    at = np.array([-0.7, 0.0, 0.2, 0.95])
    ones = [process.step(np.array([[m]]), np.eye(1))[0][0, 0] for m in at]
    np.testing.assert_allclose(process.next_overlap(at), ones, atol=1e-12)
    path = process.run(np.array([[0.2]]), np.eye(1), 3)
    assert path[0][1, 0, 0] == pytest.approx(ones[2], abs=1e-12)
    assert path[0].shape == path[1].shape == (4, 1, 1)


def test_rows_stay_on_the_sphere_and_a_student_that_is_the_teacher_stays():
    process = Process(Committee(Erf(), 2), Erf(), 100, 10, 2.0, num_neurons=2)
    m, q = process.run(*overlaps(process), 20)
    np.testing.assert_allclose(np.diagonal(q, axis1=1, axis2=2), 1)
    assert np.abs(m).max() <= 1
    for student, link in ((Erf(), Committee(Erf(), 2)), (Hermite(3), Committee(Hermite(3), 2))):
        same = replace(process, student=student, link=link)
        m, q = same.step(np.eye(2), np.eye(2))
        np.testing.assert_allclose(m, np.eye(2), atol=1e-9)
        np.testing.assert_allclose(q, np.eye(2), atol=1e-9)


def test_two_neurons_in_one_place_stay_together():
    process = Process(Erf(), Erf(), 100, 10, 2.0, num_neurons=2)
    m, q = process.step(np.full((2, 1), 0.4), np.ones((2, 2)))
    assert m[0] == pytest.approx(m[1])
    # With one readout for both it is a single neuron whose gradient is halved.
    alone = Process(Erf(), Erf(), 100, 10, 1.0)
    assert m[0, 0] == pytest.approx(alone.next_overlap(0.4), abs=1e-9)
    np.testing.assert_allclose(q, 1, atol=1e-9)


def test_the_order_of_neurons_does_not_matter():
    process = Process(Erf(), Erf(), 100, 10, 0.5, num_neurons=3, readout=(1, 2, 3))
    m, q = overlaps(process)
    turn = [2, 0, 1]
    other = replace(process, readout=(3, 1, 2))
    one, two = process.step(m, q), other.step(m[turn], q[turn][:, turn])
    np.testing.assert_allclose(one[0][turn], two[0], atol=1e-12)
    np.testing.assert_allclose(one[1][turn][:, turn], two[1], atol=1e-12)


@pytest.mark.parametrize("student", [Erf(), Tanh()])
def test_a_committee_of_one_is_its_link(student):
    m, q = np.array([[0.3], [0.1]]), np.array([[1, 0.2], [0.2, 1]])
    one, other = (Process(link, student, 50, 5, 0.5, num_neurons=2).step(m, q) for link in (Erf(), Committee(Erf(), 1)))
    np.testing.assert_allclose(one[0], other[0], atol=1e-12)


def test_a_plain_function_of_several_numbers_says_how_many():
    m, q = np.array([[0.3, 0.1]]), np.eye(1)
    named = Process(ProductOf(Tanh(), 2), Tanh(), 50, 5, 0.5)
    plain = Process(lambda z: np.tanh(z[:, 0] * z[:, 1]), Tanh(), 50, 5, 0.5, directions=2)
    np.testing.assert_array_equal(named.step(m, q)[0], plain.step(m, q)[0])


def test_correlated_directions_of_the_teacher_are_in_p():
    process = Process(Committee(Erf(), 2), Erf(), 50, 5, 0.5)
    m, q = np.array([[0.3, 0.1]]), np.eye(1)
    plain = process.step(m, q)[0]
    np.testing.assert_array_equal(process.step(m, q, np.eye(2))[0], plain)
    assert np.abs(process.step(m, q, np.array([[1, 0.5], [0.5, 1]]))[0] - plain).max() > 1e-3


def test_a_run_stops_at_weak_recovery():
    process = Process(Hermite(2), Hermite(2), 10**6, 10**7, 0.05)
    m, _ = process.run(np.array([[1e-3]]), np.eye(1), 10_000, until=0.5)
    assert np.linalg.norm(m[-2]) < 0.5 <= np.linalg.norm(m[-1])
    assert len(process.run(np.array([[0.6]]), np.eye(1), 10, until=0.5)[0]) == 1


def test_he_2_learns_in_log_d_steps_when_the_batch_grows_with_d():
    # Experiment 7: g = O(1), n_b = O(d), d up to 2^32.
    steps = []
    for power in (8, 16, 24, 32):
        process = Process(Hermite(2), Hermite(2), 2**power, 100 * 2**power, 0.05)
        steps.append(len(process.run(np.array([[2 ** (-power / 2)]]), np.eye(1), 1000, until=0.5)[0]) - 1)
    gaps = np.diff(steps)
    assert gaps[0] == pytest.approx(gaps[2], rel=0.15)
    assert steps[0] < steps[3] < 300


@pytest.mark.parametrize(
    ("degree", "loss", "threshold"),
    [
        (3, Objective.MSE, 0.0104),
        (3, Objective.CORRELATION, 0.333),
        (4, Objective.MSE, 3.9e-4),
        (4, Objective.CORRELATION, 0.0833),
    ],
)
def test_a_cold_start_escapes_below_its_threshold_and_not_above(degree, loss, threshold):
    found = escape_threshold(Hermite(degree), Hermite(degree), loss)
    assert found == pytest.approx(threshold, rel=0.01)
    dim = 10**6
    start = dim**-0.5
    for factor in (0.9, 1.1):
        batch = dim
        rate = factor * found * batch / dim ** (degree / 2)
        after = Process(Hermite(degree), Hermite(degree), dim, batch, rate, loss).next_overlap(start)
        assert (after > start) == (factor < 1)


def test_a_threshold_is_negative_for_a_wrong_sign_and_falls_with_noise():
    assert escape_threshold(Hermite(4), Relu()) < 0
    assert escape_threshold(Hermite(3), Hermite(3), noise=10.0) < escape_threshold(Hermite(3), Hermite(3))


@pytest.mark.parametrize(
    ("delta", "mu", "kept"),
    [
        (1.0, 0.0, Kept(True, True)),
        (0.5, 0.5, Kept(True, True)),
        (0.5, 1.0, Kept(True, False)),
        (2.0, 0.0, Kept(True, False)),
        (0.6, 0.2, Kept(False, True)),
        (0.0, 1.0, Kept(True, True)),
    ],
)
def test_the_larger_of_drift_and_noise_stays(delta, mu, kept):
    assert kept_terms(delta, mu) == kept
    # Orders of both terms in a step, as powers of d: the limit keeps what is as large as the larger one.
    drift, noise = -delta, 1 - 2 * delta - mu
    assert kept == Kept(drift >= noise - 1e-12, noise >= drift - 1e-12)


@pytest.mark.parametrize(("delta", "mu"), [(-0.1, 2.0), (0.1, 0.1), (float("nan"), 1.0)])
def test_there_is_no_limit_where_steps_stay_large(delta, mu):
    with pytest.raises(HeadstartError, match="delta"):
        kept_terms(delta, mu)


def test_the_differential_equation_of_a_linear_neuron_is_known():
    # He_1 with the correlation loss and no noise term: dm/dt = g (1 - m^2).
    process = Process(Hermite(1), Hermite(1), 1000, 10, 0.1, Objective.CORRELATION)
    times = np.linspace(0, 30, 7)
    m, q = ode_path(process, np.array([[0.1]]), np.eye(1), times, kept=Kept(drift=True, noise=False))
    np.testing.assert_allclose(m[:, 0, 0], np.tanh(0.1 * times + np.arctanh(0.1)), atol=1e-7)
    np.testing.assert_allclose(q, 1, atol=1e-9)
    # Its noise alone, hd = E[lam*^2] = 1, takes (g^2 d / 2 n_b) m away.
    m, _ = ode_path(process, np.array([[0.1]]), np.eye(1), times, kept=Kept(drift=False, noise=True))
    np.testing.assert_allclose(m[:, 0, 0], 0.1 * np.exp(-0.5 * times), atol=1e-7)


def test_the_process_follows_the_differential_equation_when_steps_are_small():
    # The line delta = 1 - mu: drift and noise both.
    process = Process(Committee(Erf(), 2), Erf(), 10**5, 10**2, 1e-3, num_neurons=2, noise=4.0)
    assert kept_terms(0.6, 0.4) == Kept()
    m, q = overlaps(replace(process, dim=10))
    ours, theirs = process.run(m, q, 400), ode_path(process, m, q, np.array([0.0, 200.0, 400.0]))
    np.testing.assert_allclose(ours[0][[0, 200, 400]], theirs[0], atol=2e-3)
    np.testing.assert_allclose(ours[1][[0, 200, 400]], theirs[1], atol=2e-3)
    without = ode_path(process, m, q, np.array([400.0]), kept=Kept(noise=False))
    assert np.abs(without[1] - theirs[1][-1:]).max() > 0.02


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dim": 1}, "dim"),
        ({"batch": 0}, "batch"),
        ({"rate": 0.0}, "rate"),
        ({"noise": -1.0}, "noise"),
        ({"student": Sign()}, "slope"),
        ({"link": 3}, "link"),
        ({"readout": (1.0, 2.0)}, "1 finite"),
        ({"spherical": 1}, "spherical"),
        ({"link": Committee(Erf(), 2), "directions": 3}, "takes 2"),
        ({"link": Committee(Erf(), 4), "dim": 3}, "4 directions"),
    ],
)
def test_a_process_out_of_range_is_refused(change, words):
    with pytest.raises(HeadstartError, match=words):
        Process(**change)


@pytest.mark.parametrize(
    ("m", "q", "words"),
    [
        ([[1.1]], [[1.0]], "eigenvalue"),
        ([[0.1, 0.2]], [[1.0]], "directions have|give"),
        ([0.1], [[1.0]], "shapes"),
        ([[np.nan]], [[1.0]], "finite"),
    ],
)
def test_overlaps_that_no_vectors_have_are_refused(m, q, words):
    with pytest.raises(HeadstartError, match=words):
        Process().step(np.array(m), np.array(q))


def test_a_form_that_gives_a_negative_norm_says_so():
    process = Process(Hermite(3), Hermite(3), 100, 20_000, 0.04, form=Form.PAPER_WITHOUT_BATCH)
    with pytest.raises(HeadstartError, match=r"Form\.EXACT"):
        process.step(np.array([[0.2]]), np.eye(1))
    with pytest.raises(HeadstartError, match="next_overlap"):
        replace(process, num_neurons=2).next_overlap(0.1)
    with pytest.raises(HeadstartError, match="rising"):
        ode_path(process, np.array([[0.2]]), np.eye(1), np.array([3.0, 1.0]))


def test_an_equation_goes_on_where_neurons_become_the_directions():
    process = Process(Committee(Erf(), 2), Erf(), 10_000, 100, 0.08, num_neurons=2)
    m, q = np.array([[0.3, 0.1], [0.1, 0.3]]), np.array([[1.0, 0.06], [0.06, 1.0]])
    found, _ = ode_path(process, m, q, np.array([20_000.0]), kept=Kept(noise=False))
    assert np.allclose(found[-1], np.eye(2), rtol=0, atol=1e-3)
