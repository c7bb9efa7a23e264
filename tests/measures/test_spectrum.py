import numpy as np
import pytest

import headstart as hs
from headstart.measures import concentration, spectrum
from headstart.measures.spectrum import vectors


def wave(p, frequency):
    angle = 2 * np.pi * frequency * np.arange(p) / p
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def test_a_wave_has_all_its_power_in_its_frequency_and_the_mean_does_not_count():
    shares = spectrum(3 * wave(11, 4) + 5.0)
    assert shares.shape == (5,)
    assert shares == pytest.approx([0, 0, 0, 1, 0], abs=1e-12)


def test_two_waves_share_the_power_by_their_squares():
    shares = spectrum(np.concatenate([3 * wave(11, 2), wave(11, 5)], axis=1))
    assert shares == pytest.approx([0, 0.9, 0, 0, 0.1], abs=1e-12)
    assert concentration(shares, 1) == pytest.approx(0.9)
    assert concentration(shares, 2) == pytest.approx(1)


def test_a_one_hot_table_has_every_frequency_alike_however_many_symbols_there_are():
    for p in (7, 11):
        assert spectrum(np.eye(p)) == pytest.approx(np.full(p // 2, 2 / (p - 1)))
    even = spectrum(np.eye(8))
    assert even == pytest.approx(np.array([2, 2, 2, 1]) / 7)


def test_a_table_of_one_vector_has_no_power():
    assert not spectrum(np.ones((7, 3))).any()


def test_what_is_no_table_is_refused():
    for table in (np.ones(5), np.ones((0, 3))):
        with pytest.raises(hs.HeadstartError, match=r"spectrum\(table of shape"):
            spectrum(table)
    with pytest.raises(hs.HeadstartError, match=r"concentration\(top=0\)"):
        concentration(np.array([0.5, 0.5]), 0)


def made_view(task, model, weights):
    run = hs.Run(task, model, hs.Online(), hs.CrossEntropy(), hs.SGD(0.1))
    return hs.View(0, 0, task, model, run.parameters, weights, weights, {}, None, None, None)


def test_the_measure_looks_at_the_table_and_on_request_at_its_product():
    task = hs.ModularArithmetic(11, base=11)
    model = hs.MLP(width=4, embedding=hs.Embedding(4))
    weights = {"embedding.weight": np.concatenate([wave(11, 1), 2 * wave(11, 3)], axis=1).astype(np.float32)}
    found = hs.FourierSpectrum(top=1)(made_view(task, model, weights))
    assert found["power"] == pytest.approx([0.2, 0, 0.8, 0, 0], abs=1e-6)
    assert found["concentration"] == pytest.approx(0.8)
    low = {**weights, "embedding.map": np.eye(4)[:2].astype(np.float32)}
    assert vectors(low) == pytest.approx(wave(11, 1), abs=1e-6)
    assert hs.FourierSpectrum(top=1)(made_view(task, model, low))["concentration"] == pytest.approx(0.8)
    found = hs.FourierSpectrum(product=True)(made_view(task, model, low))
    assert found["power"] == pytest.approx([1, 0, 0, 0, 0], abs=1e-6)


def test_a_network_without_symbols_has_no_spectrum():
    run = hs.Run(hs.Parity(6, 2), hs.MLP(4), hs.Online(), hs.MSE(), hs.SGD(0.1))
    view = hs.View(0, 0, run.task, run.model, run.parameters, {}, {}, {}, None, None, None)
    with pytest.raises(hs.HeadstartError, match="no table of symbols"):
        hs.FourierSpectrum()(view)
