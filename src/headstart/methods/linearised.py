"""The network replaced by its first-order expansion at the start: training in the lazy, or kernel, regime."""

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from headstart.core.errors import HeadstartError
from headstart.methods.method import Forward, Method, Tensors


@dataclass(frozen=True)
class Linearised(Method):
    """f(x; w) becomes f(x; w_0) + (w - w_0) . grad_w f(x; w_0), with w_0 the weights at the start of the run.

    Gradient descent on it is kernel regression with the empirical neural tangent kernel at w_0. A step costs about
    twice that of the network.

    Batch norm has the means and variances that w_0 gives it on the training rows, or those that a source learned, as
    constants (`fix_statistics`): so f(x; w) is a function of x alone, and the kernel one of two images. Where the
    expansion also goes through the statistics of the batch, as in the code of Local Signal Adaptivity, what is
    predicted of an image depends on the others of its batch, in testing too, and there is no kernel of two images.

    Reference: Jacot et al., Neural tangent kernel (2018); Lee et al., Wide neural networks
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


# Rows that statistics are taken on: all, up to so many.
STATISTICS_ROWS = 2048


def fix_statistics(module: Any, x: Any) -> None:
    """Give batch norm the means and variances that rows x have at the module's weights; end in evaluation mode.

    Layers one after another, in one pass: each sees what the ones before make of the rows by the rows' own statistics.
    """
    import torch

    norms = [m for m in module.modules() if hasattr(m, "running_mean") and hasattr(m, "momentum")]
    inside = {f"{name}.{b}" for name, m in module.named_modules() if m in norms for b, _ in m.named_buffers()}
    kept = module.state_dict()
    others = [name for name, _ in module.named_buffers() if name in kept and name not in inside]
    if others:
        raise HeadstartError(
            f"Linearised: the model has buffers that training changes and that are not batch norm's, {others[0]}; "
            "use a model without them"
        )
    momenta = [norm.momentum for norm in norms]
    module.train()
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        module(x[:STATISTICS_ROWS])
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    module.eval()


@cache
def _jvp() -> Any:
    """torch.func.jvp; what it imports on its first call warns of its own deprecations, which is nobody's business."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))
    return torch.func.jvp
