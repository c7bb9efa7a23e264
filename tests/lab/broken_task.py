"""A task whose samples cannot be drawn."""

from dataclasses import dataclass

import headstart as hs


@dataclass(frozen=True)
class BrokenTask:
    dim: int
    degree: int

    semantics = 1
    losses = hs.Parity.losses
    num_test = 16
    metrics = (hs.sign_accuracy(),)
    population_size = None

    @property
    def signature(self):
        return hs.Signature((self.dim,))

    def sample(self, seed, ids, stream=None):
        raise RuntimeError("the disk of this task is empty")

    def population(self, seed, ids=None):
        raise RuntimeError("the disk of this task is empty")
