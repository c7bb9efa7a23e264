"""The share of active units."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import headstart as hs
from headstart.measures import active_shares

RUN = hs.Run(
    task=hs.MadeImages(40, 30, side=4, channels=2),
    model=hs.ConvNet(4, depth=2),
    plan=hs.Fixed(40),
    loss=hs.CrossEntropy(),
    optimizer=hs.SGD(0.1),
    batch=hs.Batch(8),
    budget=hs.Budget(6, record_every=3),
)


def test_a_unit_is_active_where_its_relu_is_above_zero():
    layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 5), torch.nn.ReLU())
    x = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    h = torch.relu(layers[0](torch.from_numpy(x)))
    expected = [(h > 0).double().mean().item(), (layers[2](h) > 0).double().mean().item()]
    np.testing.assert_allclose(active_shares(layers, x), expected)


def test_a_run_is_looked_at_on_its_way():
    traces = hs.train(RUN, seeds=[0, 1], measures=(hs.ActiveUnits(20),))
    seen = traces.measured(hs.ActiveUnits(20))
    assert seen["step"].tolist() == [0, 3, 6]
    assert seen["layers"].shape == (2, 3, 2)
    np.testing.assert_allclose(seen["active"], seen["layers"].mean(axis=2))
    # Batch norm centres by the rows' own means before every ReLU here, so that about half are active at the start.
    assert abs(seen["layers"][:, 0] - 0.5).max() < 0.1


def test_a_model_without_relu_is_refused():
    run = replace(RUN, model=hs.MLP(4, activation="tanh"), task=hs.Parity(6, 2), loss=hs.MSE(), plan=hs.Online())
    with pytest.raises(hs.HeadstartError, match="no ReLU"):
        hs.train(run, seeds=[0], measures=(hs.ActiveUnits(20),))
