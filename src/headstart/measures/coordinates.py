"""How large the coordinates of a network's layers are."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headstart.core.signature import Signature
from headstart.models import MLP, Weights

if TYPE_CHECKING:
    import torch


def coordinate_sizes(model: MLP, weights: Weights, before: Weights, x: NDArray[np.float32]) -> list[float]:
    """The root mean square of z(weights) - z(before) over neurons and samples, for the pre-activations of each layer.

    The last layer is the output. Reference: Yang et al., Tensor Programs V (2022), Appendix D.1.
    """
    now, then = (_pre_activations(model, w, x) for w in (weights, before))
    return [float(np.sqrt(((a - b) ** 2).mean())) for a, b in zip(now, then, strict=True)]


def _pre_activations(model: MLP, weights: Weights, x: NDArray[np.float32]) -> list[NDArray[np.float64]]:
    import torch

    module, out = model.module(Signature(x.shape[1:])), list[NDArray[np.float64]]()
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    layers = [part for part in module.modules() if isinstance(part, torch.nn.Linear)]

    def note(layer: "torch.nn.Module", inputs: object, output: "torch.Tensor") -> None:
        out.append(output.double().numpy())

    with torch.no_grad():
        hooks = [layer.register_forward_hook(note) for layer in layers]
        module(torch.from_numpy(x))
        for hook in hooks:
            hook.remove()
    return out
