"""How many of a network's units are active on an image."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.measures.on_the_way import Recorded, View, When

if TYPE_CHECKING:
    import torch


def active_shares(module: "torch.nn.Module", x: NDArray[Any]) -> NDArray[np.float64]:
    """The share of units above 0 after each ReLU, in the order of the forward pass, mean over rows: float64[layers].

    A unit of a convolution is a channel at a position. Any module that calls torch's ReLU is seen.
    """
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    rectifiers = {torch.relu, functional.relu, torch.Tensor.relu, torch.relu_, torch.Tensor.relu_}
    found: list[float] = []

    class Watch(TorchFunctionMode):
        """Sees every call of torch."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            if func in rectifiers:
                found.append(float((out > 0).double().mean()))
            return out

    with torch.no_grad(), Watch():
        module(torch.from_numpy(np.ascontiguousarray(x)).to(next(module.parameters()).dtype))
    return np.array(found)


@dataclass(frozen=True)
class ActiveUnits:
    """The share of active units on the first `num` test rows: "active", the mean over layers, and "layers" [layers].

    Batch norm is by the rows' own means and variances, since at step 0 there are no others. Reference: Local Signal
    Adaptivity, Fig. 3.2 of the thesis: sparser as training goes on.
    """

    num: int = 256
    at: When = Recorded()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("ActiveUnits", "num", self.num)

    def __call__(self, view: View) -> dict[str, Any]:
        """The shares now."""
        layers = active_shares(view.module().train(), view.test.x[: self.num])
        if not len(layers):
            raise HeadstartError(f"ActiveUnits: {type(view.model).__name__} has no ReLU; use a model with some")
        return {"active": float(layers.mean()), "layers": layers}
