"""A linearised network in function space is the linearised network."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call, jacrev

from headstart.core.errors import HeadstartError
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines import choose
from headstart.engines.engine import Interrupted, Job
from headstart.engines.tangent import TangentTraining
from headstart.losses import CrossEntropy
from headstart.measures import row_gradients
from headstart.methods import Linearised, fix_statistics
from headstart.models import ConvNet, WideResNet
from headstart.optimizers import SGD, AdamW
from headstart.plans import Fixed
from headstart.run import Run
from headstart.tasks import MadeImages

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")

RUN = Run(
    MadeImages(20, 12, side=4, channels=2, classes=3, rows=40),
    ConvNet(4, depth=2),
    Fixed(20, replacement=False),
    CrossEntropy(),
    SGD(0.1),
    FullBatch(),
    methods=(Linearised(),),
    budget=Budget(6, record_every=3),
    precision="float64",
)
TWO = replace(RUN, task=replace(RUN.task, classes=2), optimizer=SGD(0.1, momentum=0.9))


@pytest.mark.parametrize("run", [RUN, TWO, replace(TWO, model=WideResNet())], ids=["three classes", "two", "wide"])
def test_training_by_the_kernel_is_training_by_weights(run):
    (outcome,) = choose(run).engine.train([Job(run)])
    found = TangentTraining(run, (0.1, 0.3), (0, 3, 6)).compute()
    assert found["rate"].tolist() == [0.1, 0.3]
    for name in ("train_loss", "test_loss", "train_accuracy", "test_accuracy"):
        np.testing.assert_allclose(found[name][0], outcome.trace[name], rtol=1e-8, err_msg=name)
    assert np.ptp(found["train_loss"][0]) > 1e-3
    faster = replace(run, optimizer=replace(run.optimizer, lr=0.3))
    (outcome,) = choose(faster).engine.train([Job(faster)])
    np.testing.assert_allclose(found["train_loss"][1], outcome.trace["train_loss"], rtol=1e-8)


def network():
    module = RUN.model.module(RUN.task.signature).double()
    weights = RUN.model.initial_weights(RUN.task.signature, 0)
    module.load_state_dict({**module.state_dict(), **{n: torch.from_numpy(w) for n, w in weights.items()}})
    return module, torch.from_numpy(RUN.task.population(0).x).double()


def test_statistics_are_those_of_the_rows_at_the_start_whatever_the_batch():
    module, x = network()
    with torch.no_grad():
        by_batch = module.train()(x)
    fresh, _ = network()
    fix_statistics(fresh, x)
    assert not fresh.training
    with torch.no_grad():
        # The running variance is the unbiased one: of 20 images of 16 positions, by 320 / 319 larger.
        torch.testing.assert_close(fresh(x), by_batch, rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(fresh(x[:3]), fresh(x)[:3])
    assert all(m.momentum == 0.1 for m in fresh.modules() if hasattr(m, "momentum"))


def test_the_gradients_of_rows_are_the_jacobian():
    module, x = network()
    fix_statistics(module, x)
    weights = {name: w.detach() for name, w in module.named_parameters()}
    jacobian = jacrev(lambda w: functional_call(module, w, (x,)))(weights)
    for name, gradient in row_gradients(module, x.numpy(), list(weights), (1.0, -2.0, 0.5)).items():
        expected = jacobian[name][:, 0] - 2 * jacobian[name][:, 1] + 0.5 * jacobian[name][:, 2]
        torch.testing.assert_close(gradient, expected)


def test_batch_norm_stays_as_it_was_fixed_when_a_run_goes_on(tmp_path):
    run = replace(RUN, batch=Batch(5), model=ConvNet(4, depth=2))
    engine = choose(run).engine
    (whole,) = engine.train([Job(run)])
    job = Job(run, checkpoint=tmp_path / "c.safetensors")
    with pytest.raises(Interrupted):
        list(engine.train([job], watch=lambda index, step: step >= 3))
    (resumed,) = engine.train([job])
    np.testing.assert_array_equal(resumed.trace["test_loss"], whole.trace["test_loss"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ()}, "Linearised"),
        ({"batch": Batch(4)}, "FullBatch"),
        ({"optimizer": AdamW(0.1)}, "SGD"),
        ({"optimizer": SGD(0.1, weight_decay=0.1)}, "without decay"),
    ],
)
def test_what_is_not_gradient_descent_in_function_space_is_refused(change, message):
    with pytest.raises(HeadstartError, match=message):
        TangentTraining(replace(RUN, **change), (0.1,), (1,))
    with pytest.raises(HeadstartError, match="record="):
        TangentTraining(RUN, (0.1,), (3, 1))
