"""The network replaced by its first-order expansion at the start: training in the lazy, or kernel, regime."""

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from headstart.methods.method import Forward, Method, Tensors


@dataclass(frozen=True)
class Linearised(Method):
    """f(x; w) becomes f(x; w_0) + (w - w_0) . grad_w f(x; w_0), with w_0 the weights at the start of the run.

    Gradient descent on it is kernel regression with the empirical neural tangent kernel at w_0. A step costs about
    twice that of the network. Reference: Jacot et al., Neural tangent kernel (2018); Lee et al., Wide neural networks
    of any depth evolve as linear models under gradient descent (2019).
    """

    semantics: ClassVar[int] = 1

    @property
    def flops_factor(self) -> float:
        """A forward pass carries its derivative along."""
        return 2.0

    def predict(self, forward: Forward, weights: Tensors, origin: Tensors, x: Any) -> Any:
        """The linear model's predictions."""
        change = {name: weights[name] - origin[name] for name in weights}
        value, slope = _jvp()(lambda w: forward(w, x), (origin,), (change,))[:2]
        return value + slope


@cache
def _jvp() -> Any:
    """torch.func.jvp; what it imports on its first call warns of its own deprecations, which is nobody's business."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))
    return torch.func.jvp
