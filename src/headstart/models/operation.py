"""Functions as single torch operations, so that an engine can see them in a traced step and do them faster."""

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY = torch.library.Library("headstart", "FRAGMENT")


def operation(function: Callable[..., Any]) -> Any:
    """Make an operation of a formula on tensors, all with an axis in front along which nothing mixes.

    Autograd has no part in it: an autograd.Function around it says its derivative.
    """
    name = function.__name__.removeprefix("_")
    _LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()))
    _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    made = getattr(torch.ops.headstart, name).default
    torch.library.register_vmap(made, _stacked(made), lib=_LIBRARY)
    return made


def _stacked(made: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of vmap: rows of the first axis do not mix, so those of all members are one batch."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        def flat(x: Any, dim: int | None) -> Any:
            if not isinstance(x, torch.Tensor):
                return x
            members = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            return members.flatten(0, 1)

        def apart(out: torch.Tensor) -> torch.Tensor:
            return out.unflatten(0, (info.batch_size, -1))

        outputs = made(*(flat(x, dim) for x, dim in zip(args, in_dims, strict=True)))
        if isinstance(outputs, torch.Tensor):
            return apart(outputs), 0
        return tuple(apart(out) for out in outputs), (0,) * len(outputs)

    return rule
