"""What kernels are told: the shape a group of runs shares, each member's own numbers, where batches come from."""

from typing import Any, NamedTuple

from headstart.core.kernels.compile import part
from headstart.core.kernels.random import integers, permuted


class Shape(NamedTuple):
    """What the members of a call share. `neurons` is the width, `width` the same padded to a multiple of 16."""

    dim: int
    neurons: int
    width: int
    depth: int
    bias: int
    activation: int
    loss: int
    optimizer: int
    support: Any  # uint64: the bits of a parity's support
    ties: float  # what a prediction of exactly 0 counts in the accuracy
    radius: float  # of the sphere that each neuron of the first layer stays on; 0 for none
    tangent: int  # whether its gradient is along the sphere


class Members(NamedTuple):
    """What is each member's own, indexed by member."""

    seeds: Any  # uint64[members]
    weights: Any  # float32[members, size]
    first: Any  # float32[members, size]: AdamW's first moment
    second: Any  # float32[members, size]
    rates: Any  # float64[members, parameters]
    adam: Any  # float64[members, 4]: beta1, beta2, eps, weight decay
    offsets: Any  # int64[parameters + 1]: where each parameter begins in the flat weights
    factors: Any  # float64[steps]: what the schedule multiplies all rates by


class Batches(NamedTuple):
    """One leg of a course. `size` is -1 for fresh ids; `batch` is the pool's size for full batches.

    Where samples are `stored` they are read from the pools, which begin with the sample of id `origin`; else the
    kernels draw them.
    """

    batch: int
    full: int
    first: int
    size: int
    replacement: int
    leg: int
    began: int
    stored: int
    origin: int


@part
def draw_ids(plan: Any, seed: Any, step: Any, ids: Any, keys: Any) -> None:
    """The sample ids of the batch at `step`, as `headstart.plans.course` defines them: int64[batch]."""
    position = (step - plan.began) * plan.batch
    if plan.size < 0:
        for n in range(plan.batch):
            ids[n] = plan.first + position + n
    elif plan.replacement:
        integers(seed, step, plan.batch, plan.size, plan.first, ids)
    else:
        permuted(seed, plan.leg, position, plan.batch, plan.size, plan.first, keys, ids)
