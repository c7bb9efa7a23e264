"""The reference engine's own ways: threads."""

from dataclasses import dataclass, replace

import torch

from headstart.core.units import Batch, Budget
from headstart.engines import Job
from headstart.engines.loop import Loop
from headstart.losses import MSE
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Online
from headstart.run import Run
from headstart.tasks import Parity

SMALL = Run(Parity(8, 2), MLP(16), Online(), MSE(), SGD(0.1), batch=Batch(8), budget=Budget(1))


@dataclass(frozen=True)
class Noting(MLP):
    """A network that notes on how many threads it is called."""

    def module(self, signature):
        network = super().module(signature)
        network.register_forward_pre_hook(lambda *_: SEEN.append(torch.get_num_threads()))
        return network


SEEN = []


def threads_of(run):
    before, kept = torch.get_num_threads(), []
    torch.set_num_threads(2)
    SEEN.clear()
    try:
        for _ in Loop().train([Job(run)]):
            kept.append(torch.get_num_threads())
    finally:
        torch.set_num_threads(before)
    assert kept == [2], "the caller's number is given back"
    return set(SEEN)


def test_small_models_train_on_one_thread_and_large_ones_on_all():
    assert threads_of(replace(SMALL, model=Noting(16))) == {1}
    assert threads_of(replace(SMALL, model=Noting(1024, depth=3), batch=Batch(512))) == {2}
