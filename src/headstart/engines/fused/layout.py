"""Where a run's parameters lie in a member's flat weights, and which runs can share a kernel call."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headstart.core.roles import Parameter, Role
from headstart.core.units import FullBatch
from headstart.engines.lower import Lowered, lower
from headstart.methods import Hook, OnSphere
from headstart.models import MLP, Weights
from headstart.run import Run
from headstart.tasks import Parity

# The width is padded to this many floats: two vectors of eight.
WIDTH_MULTIPLE = 16
# The kernels for deep networks and dense inputs take coordinates four at a time.
ROW_MULTIPLE = 4
CACHE_LINE = 64
# Packed samples are 64-bit words; the highest bit is for labels that are not the parity of the others.
LARGEST_PACKED_DIM = 63
LABEL_BIT = 63


def padded(size: int, multiple: int) -> int:
    """The next multiple at or above `size`."""
    return -(-size // multiple) * multiple


def floats(*shape: int) -> NDArray[np.float32]:
    """Zeros that begin at a cache line: vectors that straddle two lines cost twice."""
    size = int(np.prod(shape))
    memory = np.zeros(4 * size + CACHE_LINE, dtype=np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + 4 * size].view(np.float32).reshape(shape)


def flat(*shape: int) -> NDArray[np.float32]:
    """The same, one-dimensional."""
    return floats(*shape).reshape(-1)


def sphere_of(lowered: Lowered) -> OnSphere | None:
    """The sphere that the first layer stays on, where that is all that methods do to gradients and weights."""
    chosen = {id(m): m for hook in (Hook.PROJECTION, Hook.GRADIENTS) for _, m in lowered.using(hook)}
    first = next(iter(chosen.values()), None)
    if len(chosen) != 1 or type(first) is not OnSphere or first.roles != (Role.INPUT,):
        return None
    return first


def uses_tables(run: Run) -> bool:
    """Whether the run goes to the bit-table kernels: two layers on +-1 inputs, on no sphere."""
    if not isinstance(run.task, Parity) or not isinstance(run.model, MLP):
        return False
    if sphere_of(lower(run)) is not None:
        return False
    # A bias counts as one more coordinate, always +1, and must not share a bit with labels.
    return run.model.depth == 2 and run.task.dim + run.model.bias <= LARGEST_PACKED_DIM


def group_key(run: Run) -> Hashable:
    """What must agree for runs to share a kernel call.

    Members may differ in their seed, learning rates, init scales, starting weights and AdamW's constants.
    """
    model, lowered = run.model, lower(run)
    assert isinstance(model, MLP)
    return (
        run.task,
        lowered.shared,
        (model.width, model.depth, model.activation, model.bias),
        run.loss,
        type(run.optimizer).__name__,
        run.batch,
        lowered.course,
        lowered.altering,
        run.budget,
    )


@dataclass(frozen=True)
class Layout:
    """Each weight [fan_out, fan_in] is stored transposed, [rows, padded width]; vectors are padded to 16.

    With tables the input layer has a row a coordinate and its bias is the next row; otherwise rows are padded too.
    """

    parameters: tuple[Parameter, ...]
    tables: bool

    @cached_property
    def width(self) -> int:
        """The padded width."""
        return padded(self.parameters[-1].fan_in if len({p.layer for p in self.parameters}) > 1 else 1, WIDTH_MULTIPLE)

    def _stored(self, parameter: Parameter) -> tuple[int, int]:
        """(rows, columns) in the flat weights."""
        if parameter.role is Role.READOUT:
            return 1, padded(parameter.fan_in, WIDTH_MULTIPLE)
        if parameter.role is Role.BIAS:
            return 1, padded(parameter.shape[0], WIDTH_MULTIPLE)
        rows = parameter.fan_in
        if not self.tables:
            rows = padded(rows, WIDTH_MULTIPLE if parameter.role is Role.HIDDEN else ROW_MULTIPLE)
        return rows, padded(parameter.shape[0], WIDTH_MULTIPLE)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each parameter begins, and the size of all: int64[parameters + 1]."""
        return np.cumsum([0] + [rows * columns for rows, columns in map(self._stored, self.parameters)], dtype=np.int64)

    @property
    def size(self) -> int:
        """Floats in a member's flat weights."""
        return int(self.offsets[-1])

    def pack(self, weights: Weights) -> NDArray[np.float32]:
        """The flat weights, zero in the padding."""
        flat = np.zeros(self.size, dtype=np.float32)
        for parameter, start in zip(self.parameters, self.offsets, strict=False):
            value = weights[parameter.name]
            rows, columns = self._stored(parameter)
            block = flat[start : start + rows * columns].reshape(rows, columns)
            if parameter.role in (Role.READOUT, Role.BIAS):
                block[0, : value.size] = value.ravel()
            else:
                block[: value.shape[1], : value.shape[0]] = value.T
        return flat

    def unpack(self, flat: NDArray[np.float32]) -> Weights:
        """The parameters by name, copied out of the flat weights."""
        weights: Weights = {}
        for parameter, start in zip(self.parameters, self.offsets, strict=False):
            rows, columns = self._stored(parameter)
            block = flat[start : start + rows * columns].reshape(rows, columns)
            if parameter.role in (Role.READOUT, Role.BIAS):
                value = block[0, : int(np.prod(parameter.shape))].reshape(parameter.shape)
            else:
                value = block[: parameter.shape[1], : parameter.shape[0]].T
            weights[parameter.name] = np.array(value, dtype=np.float32, order="C")
        return weights


def is_population(run: Run, size: int | None) -> bool:
    """Whether a leg with a pool of this size is the exact population."""
    return size is None and isinstance(run.batch, FullBatch)
