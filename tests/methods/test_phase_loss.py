"""Another loss in some phases."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.core.units import Batch, Budget
from headstart.engines import choose, lower
from headstart.engines.engine import Job
from headstart.losses import MSE, Correlation, CrossEntropy, Logistic
from headstart.methods import Hook, PhaseLoss
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Phase, Phases
from headstart.run import Run, Step
from headstart.tasks import Parity

PLAN = Phases((Phase(size=16, steps=6), Phase()))
RUN = Run(Parity(6, 2), MLP(8), PLAN, MSE(), SGD(0.1), Batch(8), budget=Budget(12, record_every=3), precision="float64")


def outcome(run, *steps):
    (trained,) = choose(run).engine.train([Job(run, keep=tuple(Step(step) for step in steps))])
    return trained


def test_each_phase_has_its_own_loss_and_the_others_that_of_the_run():
    method = PhaseLoss((None, Correlation()))
    assert [method.loss(leg) for leg in range(4)] == [None, Correlation(), None, None]
    assert lower(replace(RUN, methods=(method,))).losses == (MSE(), Correlation())
    assert PhaseLoss(Correlation()) == PhaseLoss([Correlation()]) == PhaseLoss((Correlation(),))


def test_the_last_of_two_methods_that_name_a_loss_decides():
    methods = (PhaseLoss((Correlation(), Correlation())), PhaseLoss((Logistic(),)))
    assert lower(replace(RUN, methods=methods)).losses == (Logistic(), Correlation())


def test_a_phase_takes_the_steps_of_a_run_with_its_loss():
    mixed = outcome(replace(RUN, methods=(PhaseLoss((Correlation(),)),)), 6, 12)
    whole = outcome(replace(RUN, loss=Correlation()), 6)
    other = outcome(RUN, 6)
    at = Step(6)
    for name, weight in mixed.states[at].weights.items():
        assert np.array_equal(weight, whole.states[at].weights[name])
    assert not np.array_equal(mixed.states[at].weights["layers.0.weight"], other.states[at].weights["layers.0.weight"])
    # From there on it minimises the loss of the run: plain steps on the mean squared error.
    run, module = RUN, RUN.model.module(RUN.task.signature).double()
    module.load_state_dict({name: torch.from_numpy(w) for name, w in mixed.states[at].weights.items()})
    optimizer, course = torch.optim.SGD(module.parameters(), lr=0.1), lower(run).course
    place = course.observe(course.start(run.seed), 6)
    for step in range(6, 12):
        data = run.task.sample(run.seed, course.ids(place, step))
        x, y = torch.from_numpy(data.x).double(), torch.from_numpy(data.y).double()
        optimizer.zero_grad()
        ((module(x) - y) ** 2).mean().backward()
        optimizer.step()
    for name, weight in module.named_parameters():
        np.testing.assert_allclose(mixed.states[Step(12)].weights[name], weight.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_records_are_of_the_loss_of_the_run():
    mixed, plain = outcome(replace(RUN, methods=(PhaseLoss((Correlation(),)),))), outcome(RUN)
    for name in ("test_loss", "train_loss"):
        assert mixed.trace[name][0] == plain.trace[name][0]
        assert (mixed.trace[name] >= 0).all()  # which those of the correlation loss are not


@pytest.mark.parametrize("losses", [(), (None,), (None, None)])
def test_no_losses_is_the_untouched_run(losses):
    method = PhaseLoss(losses)
    assert method.hooks == frozenset()
    one, two = (outcome(replace(RUN, methods=methods)) for methods in ((method,), ()))
    assert all(np.array_equal(curve, two.trace[name]) for name, curve in one.trace.values.items())


def test_a_loss_of_its_own_asks_for_the_hook():
    assert PhaseLoss((None, MSE())).hooks == {Hook.LOSS}


def test_losses_that_make_no_sense_are_refused():
    for wrong in (MSE, ("mse",), 3):
        with pytest.raises(HeadstartError, match="give losses or None, one per phase"):
            PhaseLoss(wrong)
    with pytest.raises(HeadstartError, match=r"PhaseLoss.*Parity offers hinge, logistic, mse, correlation"):
        replace(RUN, methods=(PhaseLoss((CrossEntropy(),)),))
