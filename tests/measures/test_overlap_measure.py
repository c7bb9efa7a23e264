"""Overlaps of neurons with hidden directions, along a run."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.engines import Job
from headstart.engines.fused import Fused
from headstart.engines.loop import Loop
from headstart.measures import Overlaps

RUN = hs.Run(
    hs.MultiIndex(9, hs.Committee(hs.Erf(), 2), num_test=50),
    hs.MLP(3, activation="erf", bias=False, init="committee"),
    hs.Online(),
    hs.MSE(),
    hs.SGD(0.5),
    batch=hs.Batch(40),
    budget=hs.Budget(10, record_every=5),
    methods=(hs.OnSphere(), hs.LayerScale(rate={"readout": 0})),
    seed=2,
)


def seen(engine, run, measure):
    (outcome,) = engine.train([Job(run, measures=(measure,), keep=(hs.Step(10),))])
    return outcome.measured[measure], outcome.states[hs.Step(10)].weights["layers.0.weight"]


@pytest.mark.parametrize("engine", [Loop(), Fused()], ids=lambda engine: engine.name)
def test_overlaps_are_products_of_rows_at_the_moments_that_were_asked_for(engine):
    found, weights = seen(engine, RUN, Overlaps(hs.Every(4)))
    assert found["step"].tolist() == [0, 4, 8, 10]
    assert found["M"].shape == (4, 3, 2)
    assert found["Q"].shape == (4, 3, 3)
    np.testing.assert_allclose(found["M"][-1], weights @ RUN.task.teacher(2).T, atol=1e-6)
    np.testing.assert_allclose(found["Q"][-1], weights @ weights.T, atol=1e-6)
    np.testing.assert_allclose(np.diagonal(found["Q"], axis1=1, axis2=2), 1, atol=1e-5)


def test_overlaps_grow_as_a_linear_target_is_learned_and_are_one_at_the_target():
    task = hs.SingleIndex(9, hs.Hermite(1))
    run = replace(RUN, task=task, model=replace(RUN.model, width=1), loss=hs.Correlation(), optimizer=hs.SGD(0.3))
    traces = hs.train(run, seeds=range(8), measures=(Overlaps(),))
    m = traces.measured(Overlaps())["M"]
    assert m.shape == (8, 3, 1, 1)
    assert (np.diff(m[:, :, 0, 0], axis=1) > 0).all()
    own = hs.View(
        0, 2, task, run.model, run.parameters, {"layers.0.weight": task.teacher(2)[None]}, {}, {}, *[None] * 3
    )
    assert Overlaps()(own)["M"] == pytest.approx(1)


def test_what_has_no_directions_or_no_neurons_is_refused():
    with pytest.raises(hs.HeadstartError, match="Parity has no hidden directions; use SingleIndex"):
        seen(Loop(), replace(RUN, task=hs.Parity(9, 2)), Overlaps())
    with pytest.raises(hs.HeadstartError, match="no layer of neurons"):
        seen(Loop(), replace(RUN, model=hs.MLP(depth=1), methods=()), Overlaps())
