"""How far the tangent kernel of a network has gone from where it began."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import check_count
from headstart.measures.on_the_way import Recorded, View, When

if TYPE_CHECKING:
    import torch

# Per-row gradients are held for so many numbers at a time, 64 MB in float32.
_AT_A_TIME = 2**24


def row_gradients(
    module: "torch.nn.Module", x: NDArray[Any], names: Sequence[str], along: Sequence[float] | None = None
) -> dict[str, "torch.Tensor"]:
    """The gradient of each row's sum_o along_o f_o(x) by the parameters `names`: [rows, ...] each.

    `along` is 1 / sqrt O in all of the O outputs by default. No row may depend on others: batch norm is in evaluation
    mode.
    """
    import torch
    from torch.func import functional_call, grad, vmap

    inputs = torch.from_numpy(np.asarray(x))
    every = {name: parameter.detach() for name, parameter in module.named_parameters()}
    if inputs.is_floating_point():
        inputs = inputs.to(next(iter(every.values())).dtype)
    chosen = {name: every[name] for name in names}
    weight = None if along is None else torch.as_tensor(np.asarray(along), dtype=next(iter(every.values())).dtype)

    def summed(weights: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        out = functional_call(module, {**every, **weights}, (row[None],)).flatten()
        return out.sum() / len(out) ** 0.5 if weight is None else out @ weight

    rows = max(1, _AT_A_TIME // max(1, sum(value.numel() for value in chosen.values())))
    found: dict[str, torch.Tensor] = vmap(grad(summed), in_dims=(None, 0), chunk_size=rows)(chosen, inputs)
    return found


def pseudo_ntk(module: "torch.nn.Module", x: NDArray[Any], names: Sequence[str]) -> NDArray[np.float64]:
    """The pseudo-NTK of a module on rows x, float64[rows, rows], by the gradients of the parameters `names`.

    K(x, x') = <grad g(x), grad g(x')> with g(x) = (1 / sqrt O) sum_o f_o(x) over the O outputs.
    Reference: Mohamadi, Bae and Sutherland, A Fast, Well-Founded Approximation to the Empirical Neural Tangent Kernel,
    2023.
    """
    import torch

    kernel = torch.zeros(len(x), len(x), dtype=torch.float64)
    for each in row_gradients(module, x, names).values():
        flat = each.flatten(1)
        kernel += (flat @ flat.T).double()
    return np.asarray(kernel.numpy())


@dataclass(frozen=True)
class NTKChange:
    """The change of the pseudo-NTK on the first `num` training rows since step 0.

    "change" is |K_t - K_0|_F / |K_0|_F, and "rotation" 1 - <K_t, K_0> / (|K_t|_F |K_0|_F), in which a kernel that has
    only grown has not changed. Parameters that are fixed have no part in it. The rows of a finite set are the same
    throughout; of fresh samples, K_0 is taken on those that the next step sees. Reference: Let Me Grok For You, Fig. 3.
    """

    num: int = 64
    at: When = Recorded()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("NTKChange", "num", self.num)

    def __call__(self, view: View) -> dict[str, float]:
        """The change now."""
        rows, names = view.train.x[: self.num], [p.name for p in view.parameters if not p.fixed]
        now, before = (pseudo_ntk(view.module(weights), rows, names) for weights in (view.weights, view.initial))
        sizes = np.linalg.norm(now), np.linalg.norm(before)
        return {
            "change": float(np.linalg.norm(now - before) / sizes[1]),
            "rotation": float(1 - (now * before).sum() / (sizes[0] * sizes[1])),
        }
