"""What a sampler saves, as plain JSON data, and whether something read from a file is that."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError

State = dict[str, Any]


def checked_state(state: Any, num_batches: int, num_legs: int) -> State:
    """A state that a sampler of so many batches and legs can be in; raises where something is not."""
    if not isinstance(state, Mapping):
        raise HeadstartError(f"load_state_dict({state!r}): give what state_dict returned")
    sound = {
        "batch": lambda value: _is_count(value) and value <= num_batches,
        "stretches": lambda value: _are_stretches(value, num_legs),
        "decided": lambda value: _is_count(value) and value > 0,
        "total": _is_number,
        "metric": lambda value: value is None or _is_number(value),
        "sampler": lambda value: isinstance(value, Mapping),
    }
    for name, is_sound in sound.items():
        if name not in state:
            raise HeadstartError(f"load_state_dict: the state has no {name!r}; give what state_dict returned")
        if not is_sound(state[name]):
            most = f" of {num_batches} batches" if name == "batch" else ""
            raise HeadstartError(
                f"load_state_dict: no sampler{most} saves {name}={state[name]!r}; give what state_dict returned"
            )
    return dict(state)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _are_stretches(value: Any, num_legs: int) -> bool:
    """(leg, its first step) pairs, from (0, 0) on, both rising."""
    if not isinstance(value, Sequence) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        return False
    if not all(_is_count(leg) and leg < num_legs and _is_count(began) for leg, began in value):
        return False
    rising = all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(value))
    return len(value) > 0 and tuple(value[0]) == (0, 0) and rising
