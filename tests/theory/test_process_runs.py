"""Paths of the overlap process as parts of studies, and the error of a student from its overlaps."""

from dataclasses import replace

import numpy as np
import pytest

from headstart import HeadstartError
from headstart.core.encoding import canonical, decode, encode
from headstart.tasks import Committee, Erf, Hermite, ProductOf, Relu, Sign, Tanh
from headstart.theory import (
    Kept,
    Process,
    ProcessPath,
    RecoveryRuns,
    ReducedSGD,
    StepRuns,
    Switch,
    cold_overlaps,
    ode_path,
    population_error,
    simulate,
    target_variance,
)

PROCESS = Process(Committee(Erf(), 2), Erf(), 200, 20, 0.3, num_neurons=2, noise=0.01)
START = cold_overlaps(PROCESS, seed=4, run=1)
PART = ProcessPath(PROCESS, 12, START, (0, 3, 12))


def test_a_path_is_that_of_the_process_at_the_recorded_steps():
    m, q = PROCESS.run(*map(np.array, START), 12)
    found = PART.compute()
    assert found["step"].tolist() == [0, 3, 12]
    assert (found["overlaps"] == m[[0, 3, 12]]).all()
    assert (found["gram"] == q[[0, 3, 12]]).all()
    assert replace(PART, record=()).compute()["step"].tolist() == [12]


def test_with_a_limit_it_is_that_of_the_differential_equation():
    found = replace(PART, limit=Kept(noise=False)).compute()
    m, q = ode_path(PROCESS, *map(np.array, START), np.array([0, 3, 12]), kept=Kept(noise=False))
    assert np.array_equal(found["overlaps"], m)
    assert np.array_equal(found["gram"], q)


def test_it_starts_where_a_run_of_the_chain_with_that_number_does():
    chain = ReducedSGD(Committee(Erf(), 2), Erf(), 200, 20, 0.3, num_neurons=2)
    found = simulate(chain, [1], 0, 4, record=[0])
    assert np.allclose(found.overlaps[0, 0], START[0], rtol=0, atol=1e-12)
    assert np.allclose(found.gram[0, 0], START[1], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_runs_of_the_chain_share_the_start_of_a_path_and_are_those_of_simulate():
    chain = ReducedSGD(Committee(Erf(), 2), Erf(), 200, 20, 0.3, num_neurons=2)
    part = RecoveryRuns(chain, 3, 2, record=(0, 2), start=START)
    found = part.compute()
    assert np.allclose(found["gram"][:, 0], START[1], rtol=0, atol=1e-12)
    own = simulate(chain, 3, 2, record=[0, 2], start=tuple(map(np.array, START)))
    assert np.array_equal(own.overlaps, found["overlaps"])
    assert decode(encode(part)) == part


CHAIN = ReducedSGD(Committee(Erf(), 2), Erf(), 30, 4, 3.0, num_neurons=2, noise=0.01)


def test_single_steps_are_those_of_simulate_before_rows_are_normalised():
    found = StepRuns(CHAIN, 5, START, seed=2).compute()
    own = simulate(CHAIN, 5, 1, 2, start=tuple(map(np.array, START)), compiled=False)
    norms = np.sqrt(np.diagonal(found["gram"], axis1=1, axis2=2))
    assert np.allclose(found["overlaps"] / norms[:, :, None], own.overlaps[:, 0], rtol=0, atol=1e-9)
    assert (norms > 1.01).any()
    assert np.array_equal(found["gram"][:2], StepRuns(CHAIN, 2, START, seed=2).compute()["gram"])


def test_means_over_single_steps_are_those_of_the_steps():
    part = StepRuns(CHAIN, 6, START, seed=2)
    every, few = part.compute(), replace(part, mean_of=3).compute()
    assert np.allclose(few["gram"], every["gram"].reshape(2, 3, 2, 2).mean(axis=1))
    assert few["overlaps"].shape == (2, 2, 2)
    assert canonical(encode(part)) != canonical(encode(replace(part, mean_of=3)))
    with pytest.raises(HeadstartError, match="no multiple"):
        replace(part, mean_of=4)


def test_single_steps_have_the_means_of_the_exact_process():
    part = StepRuns(CHAIN, 20_000, START)
    found = part.compute()
    process = replace(PROCESS, dim=30, batch=4, rate=3.0)
    for name, begun, change in zip(("overlaps", "gram"), START, process.change(*map(np.array, START)), strict=True):
        error = found[name].std(axis=0) / part.num_runs**0.5
        # A two-sided level of 10^-5 for each of eight numbers.
        assert (np.abs(found[name].mean(axis=0) - np.array(begun) - change) < 4.42 * error).all()


@pytest.mark.parametrize("process", ["erf", replace(CHAIN, loss="correlation", switch=Switch())])
def test_single_steps_are_those_of_one_loss(process):
    with pytest.raises(HeadstartError, match="without a switch"):
        StepRuns(process, 2, START)


def test_a_store_can_write_it_down_and_read_it_again():
    part = replace(PART, limit=Kept())
    assert decode(encode(part)) == part
    assert canonical(encode(part)) != canonical(encode(PART))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"process": "erf"}, "give a Process"),
        ({"steps": 0}, "steps=0"),
        ({"record": (13,)}, "0 .. 12"),
        ({"start": (((0.0, 0.0),), ((1.0,),))}, r"shapes \[2, 2\] and \[2, 2\]"),
    ],
)
def test_what_has_no_path_is_said_with_the_reason(change, words):
    with pytest.raises(HeadstartError, match=words):
        replace(PART, **change)


def test_neurons_that_become_one_do_not_end_a_process():
    noisy = replace(PROCESS, dim=10_000, batch=10, rate=0.1)
    _, q = noisy.run(*map(np.array, cold_overlaps(noisy)), 400)
    assert q[-1, 0, 1] == pytest.approx(1)
    assert (q[-1] == q[-1].T).all()


@pytest.mark.parametrize(
    ("link", "student"),
    [(Hermite(3), Hermite(3)), (Sign(), Tanh()), (Relu(), Erf()), (Committee(Erf(), 2), Erf())],
    ids=str,
)
def test_the_error_from_overlaps_is_that_of_samples(link, student):
    process = Process(link, student, 50, 1, 0.1, num_neurons=2, readout=(1.0, -0.5))
    k, rng = process.num_directions, np.random.Generator(np.random.Philox(key=5))
    w = rng.normal(size=(2, 3))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    z = rng.normal(size=(100_000, 3))
    error = process.setting.target(z[:, :k]) - student(z @ w.T) @ np.array([0.5, -0.25])
    found = population_error(process, w[:, :k], w @ w.T)
    # Five standard errors.
    assert found == pytest.approx(np.mean(error**2), abs=5 * np.std(error**2) / len(z) ** 0.5)
    labels = process.setting.target(z[:, :k])
    assert target_variance(process) == pytest.approx(labels.var(), rel=0.05)
    many = population_error(process, np.stack([w[:, :k]] * 3), np.stack([w @ w.T] * 3))
    assert np.allclose(many, found)


def test_the_error_of_other_targets_is_refused():
    with pytest.raises(HeadstartError, match="give a link of one number"):
        population_error(Process(ProductOf(Tanh(), 2), Tanh()), np.zeros((1, 2)), np.eye(1))
