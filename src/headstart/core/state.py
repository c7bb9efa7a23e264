"""All that changes in training: the one currency of checkpoints, kept moments, starts and growth."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError

Arrays = dict[str, NDArray[Any]]
_BETWEEN = "/"


@dataclass(frozen=True)
class State:
    """A run at one moment. Every part is a flat dict of arrays, and the whole is one safetensors file.

    `weights`   the parameters by name
    `buffers`   what a module changes by itself, such as the running means of batch norm, by name
    `moments`   the optimizer's running averages, as "exp_avg/<parameter>"
    `hooks`     the memory of methods that transform gradients, as "<number of the method>/<parameter>"
    `place`     where the plan stands: "leg", "began", "total" and "fresh", the first id of fresh samples
    `counters`  "step", "samples" (in all gradients so far), "drawn" (the first sample id that no step has drawn yet),
                "seconds", and the optimizer's own step for each parameter as "age/<parameter>"
    """

    weights: Arrays
    buffers: Arrays = field(default_factory=dict)
    moments: Arrays = field(default_factory=dict)
    hooks: Arrays = field(default_factory=dict)
    place: Arrays = field(default_factory=dict)
    counters: Arrays = field(default_factory=dict)

    def flat(self) -> Arrays:
        """All arrays under one name each, "weights/<name>" and so on."""
        return {
            f"{part.name}{_BETWEEN}{name}": array
            for part in fields(self)
            for name, array in getattr(self, part.name).items()
        }

    @classmethod
    def unflat(cls, arrays: Mapping[str, NDArray[Any]]) -> "State":
        """The inverse of `flat`."""
        parts: dict[str, Arrays] = {part.name: {} for part in fields(cls)}
        for key, array in arrays.items():
            part, _, name = key.partition(_BETWEEN)
            if part not in parts:
                raise HeadstartError(f"a saved state has a part {part!r}; there are {', '.join(parts)}")
            parts[part][name] = array
        return cls(**parts)

    def to_bytes(self) -> bytes:
        """The state as a safetensors file."""
        return save_arrays(self.flat())

    @classmethod
    def from_bytes(cls, data: bytes) -> "State":
        """The inverse of `to_bytes`."""
        return cls.unflat(load_arrays(data)[1])

    def counter(self, name: str) -> float:
        """A counter as a number; 0 if it was never counted."""
        return self.counters[name].item() if name in self.counters else 0

    def ages(self, names: tuple[str, ...]) -> list[int]:
        """The optimizer's own step for each of these parameters."""
        return [int(self.counter(f"age{_BETWEEN}{name}")) for name in names]


def save_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> bytes:
    """Arrays as the bytes of a safetensors file."""
    from safetensors.numpy import save

    return save({name: np.asarray(array, order="C") for name, array in arrays.items()}, dict(metadata or {}))


def read_arrays(data: bytes, what: str) -> Arrays:
    """The arrays of a safetensors file from a store; `what` it is, for an error that says it is none."""
    try:
        return load_arrays(data)[1]
    except Exception as error:  # bytes that are no such file fail in many ways
        raise HeadstartError(f"{what} cannot be read: {error}; add --repair to the run") from None


def load_arrays(data: bytes) -> tuple[dict[str, str], Arrays]:
    """The metadata and the arrays of a safetensors file."""
    from safetensors.numpy import load

    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header.get("__metadata__", {}), load(data)
