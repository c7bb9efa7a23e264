"""Both phases as a simulation; every statement of Appendix A as a check that can fail."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart import HeadstartError, Parity
from headstart.theory import INEQUALITIES, PROBABILITIES, Inequality, Labels, SamplingBias, TwoPhase, predict
from headstart.theory.quadratic_neuron import initial_weights, moment_matrices, on_data, step
from headstart.theory.two_phase_bounds import (
    all_probability,
    norm_bound,
    paley_zygmund,
    population_probability,
    switch_point,
    switch_terms,
)

BOTH = {labels: TwoPhase(12, 60, 10**6, eta=0.05, labels=labels, num_neurons=1500, epsilon=0.2) for labels in Labels}
ARRAYS = {labels: part.compute() for labels, part in BOTH.items()}


@pytest.mark.parametrize("name", INEQUALITIES)
def test_an_inequality_of_appendix_a_holds_for_every_neuron_on_its_event(name):
    statement = INEQUALITIES[name]
    checked = statement(BOTH[statement.labels], ARRAYS[statement.labels])
    assert checked.num_on_event > 0
    assert checked.num_violations == 0


@pytest.mark.parametrize("name", INEQUALITIES)
def test_an_inequality_that_is_broken_is_reported(name):
    statement = INEQUALITIES[name]
    part, arrays = BOTH[statement.labels], dict(ARRAYS[statement.labels])
    num = len(arrays["readout"])
    broken = {
        "theorem_1": {"phase2_steps": np.full(num, 10**6)},
        "corollary_2": {"phase2_steps": np.full(num, 10**6)},
        "theorem_3": {"phase1_steps": np.full(num, 10**6)},
        "lemma_3": {"phase1_worst_fall": np.full(num, 1e-3)},
        "lemma_4": {"phase1_least_drive": -np.ones(num)},
        "lemma_6_signs": {"phase2_least_drive": -np.ones(num)},
        "lemma_6_contraction": {"phase2_contraction": np.full(num, 1.01)},
        "lemma_6_steps": {"phase2_steps": np.full(num, 10**6)},
        "lemma_7": {"phase1_moved": np.full(num, 2.0)},
        "lemma_8": {"phase1_plus": np.zeros(num), "phase1_minus": np.zeros(num)},
        "lemma_11": {"phase1_plus": arrays["minus"], "phase1_minus": arrays["plus"]},
    }[name]
    checked = statement(part, arrays | broken)
    assert checked.num_violations > 0.5 * checked.num_on_event > 0


@pytest.mark.parametrize("name", PROBABILITIES)
def test_a_probability_of_appendix_a_is_above_its_bound(name):
    statement = PROBABILITIES[name]
    chance = statement(BOTH[statement.labels], ARRAYS[statement.labels])
    if name == "lemma_2":
        assert chance.share == pytest.approx(0.5, abs=0.06)
    else:
        assert chance.share > chance.bound
    assert chance.bound == statement.bound(0.1)


def test_a_probability_that_is_broken_is_reported():
    part, arrays = BOTH[Labels.TRUE], dict(ARRAYS[Labels.TRUE])
    large = arrays | {"norm": np.full(len(arrays["norm"]), 1e3)}
    small = arrays | {"drive": np.zeros(len(arrays["drive"]))}
    assert PROBABILITIES["lemma_5"](part, large).share < PROBABILITIES["lemma_5"].bound(part.delta)
    assert PROBABILITIES["lemma_1"](part, small).share < PROBABILITIES["lemma_1"].bound(part.delta)


def test_a_neuron_that_stopped_below_its_bound_says_nothing_and_one_that_stopped_above_violates():
    part, arrays = BOTH[Labels.TRUE], dict(ARRAYS[Labels.TRUE])
    never = arrays | {"phase1_steps": np.full(len(arrays["readout"]), -1)}
    largest = int(np.ceil(2 * part.switch_point * np.sqrt(part.samples / (3 / 8)) / part.eta))
    cut, enough = (INEQUALITIES["theorem_3"](replace(part, max_steps=n), never) for n in (1, largest))
    assert (cut.num_on_event, cut.num_violations) == (0, 0)
    assert enough.num_violations == enough.num_on_event > 0


def test_not_a_number_violates_and_an_empty_event_says_nothing():
    nan = Inequality(np.array([True, True]), np.array([np.nan, 0.5]), np.ones(2))
    none = Inequality(np.array([False]), np.array([2.0]), np.ones(1))
    assert (nan.num_violations, nan.num_on_event) == (1, 2)
    assert (none.num_violations, none.num_on_event) == (0, 0)
    assert np.isnan(none.tightness)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), samples=st.integers(1, 40), share=st.floats(-1, 1), labels=st.sampled_from(Labels)
)
def test_lemma_3_holds_at_any_point_and_not_beyond_its_condition(seed, samples, share, labels):
    dim, eta = 5, 0.7
    ids = np.arange(1)
    w, _ = initial_weights(dim, 1, seed, ids)
    matrices, mean_label = moment_matrices(Parity(dim, 2), samples, labels, seed, ids)
    norm = np.linalg.norm(matrices[0], 2)
    if norm == 0:
        return
    # eta |a| |M| <= 1/2 with a in [-1, 1].
    a = np.array([share * min(1.0, 0.5 / (eta * norm))])
    before = on_data(matrices, mean_label, w, a)
    after = step(before, eta)
    assert np.sign(a[0]) * (after.drive - before.drive)[0] >= -1e-12


def test_a_neuron_does_not_depend_on_which_others_are_simulated():
    few, many = (TwoPhase(8, 30, 1000, num_neurons=n).compute() for n in (3, 600))
    for name, values in few.items():
        if name != "num_scanned":
            np.testing.assert_allclose(values, many[name][:3], rtol=1e-12, err_msg=name)


def test_another_seed_gives_other_neurons():
    one, other = (TwoPhase(8, 30, 1000, num_neurons=3, seed=s).compute() for s in (0, 1))
    assert not np.isin(one["drive"], other["drive"]).any()


def test_central_neurons_are_those_of_all_that_lie_in_p0():
    whole = TwoPhase(8, 30, 1000, num_neurons=3000).compute()
    part = TwoPhase(8, 30, 1000, num_neurons=20, central=True)
    kept = part.compute()
    drive = np.abs(whole["plus"] ** 2 - whole["minus"] ** 2)
    inside = (drive >= 0.75 / 8) & (whole["plus"] ** 2 + whole["minus"] ** 2 <= 1 / 8)
    expected = whole["id"][inside][:20]
    assert kept["id"].tolist() == expected.tolist()
    assert kept["num_scanned"].tolist() == [expected[-1] + 1]
    np.testing.assert_allclose(kept["drive"], whole["drive"][expected])
    with pytest.raises(HeadstartError, match="central=False"):
        PROBABILITIES["lemma_1"](part, kept)


def test_without_phase_1_the_population_starts_from_the_initial_weights():
    alone = TwoPhase(8, None, 1000, num_neurons=50).compute()
    start = TwoPhase(8, 30, 1000, num_neurons=50, switch=1e-9).compute()
    assert start["phase1_steps"].tolist() == [0] * 50
    assert alone["phase2_steps"].tolist() == start["phase2_steps"].tolist()
    assert "phase1_steps" not in alone


def test_a_statement_asks_for_the_labels_and_phases_it_is_about():
    with pytest.raises(HeadstartError, match="random labels"):
        INEQUALITIES["corollary_2"](BOTH[Labels.TRUE], ARRAYS[Labels.TRUE])
    part = TwoPhase(8, 30, 1000, num_neurons=3, epsilon=None)
    with pytest.raises(HeadstartError, match="phase2_contraction"):
        INEQUALITIES["lemma_6_contraction"](part, part.compute())


def test_the_prediction_at_dimension_100_is_that_of_the_formulas():
    said = predict(dim=100, samples=1000, width=10**8, eta=0.01, epsilon=0.1, delta=0.1)
    ratio = 100 * np.log(2000) / 1000
    bound = 1 + np.sqrt(2) * (np.sqrt(ratio) + ratio)
    assert said.norm_bound == pytest.approx(bound)
    assert said.switch == pytest.approx(np.sqrt(np.sqrt(3 / 8) / (64 * bound * np.sqrt(1e5))))
    assert said.binding_cap == "drift"
    assert said.phase1_steps == np.ceil(2 * said.switch / (0.01 * np.sqrt(3 / 8)) * np.sqrt(1000))
    assert said.phase2_steps == np.ceil(2 / (0.01 * said.switch) * np.log(16_000))
    assert said.total_steps == said.phase1_steps + said.phase2_steps
    assert predict(100, 1000, 10**8).binding_cap == "last step"


@settings(max_examples=100, deadline=None)
@given(dim=st.integers(3, 400), samples=st.integers(1, 10**5), eta=st.floats(1e-4, 0.5), labels=st.sampled_from(Labels))
def test_the_switch_point_obeys_all_its_caps_and_falls_with_the_learning_rate(dim, samples, eta, labels):
    switch = switch_point(dim, samples, eta, 0.1, labels)
    assert 0 < switch <= 1
    assert all(switch <= cap for cap in switch_terms(dim, samples, eta, 0.1, labels).values())
    assert switch_point(dim, samples, eta / 2, 0.1, labels) >= switch
    assert norm_bound(dim, samples, 0.1, labels) > norm_bound(dim, 2 * samples, 0.1, labels)


def test_the_constants_of_the_proofs_are_as_stated():
    assert paley_zygmund(np.sqrt(3 / 8)) == pytest.approx((2 - np.sqrt(2)) / (8 * 3**8))
    # p_pop is least at d = 3 and tends to (e^-0.45 - e^-0.5) (2 / pi) arccos(5/6).
    assert min(population_probability(d) for d in range(3, 200)) == population_probability(3)
    limit = (np.exp(-0.45) - np.exp(-0.5)) * 2 / np.pi * np.arccos(5 / 6)
    assert population_probability(10**6) == pytest.approx(limit, rel=1e-4)
    assert 0 < all_probability(Labels.TRUE) < all_probability(Labels.RANDOM) < 1e-6


@pytest.mark.parametrize("bad", [{"eta": 0.6}, {"epsilon": 0.5}, {"delta": 0.0}, {"dim": 2}, {"samples": 0}])
def test_a_prediction_outside_the_theorem_is_refused(bad):
    with pytest.raises(HeadstartError, match=next(iter(bad))):
        predict(**{"dim": 10, "samples": 20, "width": 100, **bad})


def test_the_sampling_bias_does_not_see_the_degree_and_the_fourier_signal_does():
    found = {k: SamplingBias(12, k, 129, num_sets=4000).compute() for k in (3, 6)}
    drives = [np.median(found[k]["drive"]) for k in (3, 6)]
    assert drives[0] == pytest.approx(drives[1], rel=0.08)
    assert np.median(found[6]["fourier"]) < 0.05 * np.median(found[3]["fourier"])


def test_the_sampling_bias_is_the_drive_of_the_quadratic_neuron():
    arrays = TwoPhase(12, 33, 10, num_neurons=3, seed=5).compute()
    np.testing.assert_allclose(SamplingBias(12, 2, 33, 3, 5).compute()["drive"], np.abs(arrays["drive"]), rtol=1e-6)


def test_the_fourier_signal_is_the_product_of_the_mean_inputs_of_the_support():
    part = SamplingBias(12, 4, 33, num_sets=3, seed=5)
    x = Parity(12, 4).sample(5, (2 << 32) + np.arange(33)).x
    assert part.compute()["fourier"][2] == pytest.approx(abs(x[:, :4].mean(axis=0).prod()), rel=1e-5)


def test_an_even_number_of_samples_has_no_logarithm_and_is_refused():
    with pytest.raises(HeadstartError, match="samples=64"):
        SamplingBias(12, 3, 64)
