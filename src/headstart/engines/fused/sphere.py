"""Neurons of the first layer on a sphere: gradients along it, and the way back after a step.

Weights and gradient are [dim, width], a neuron in each column; sums over a column are taken in float64.
"""

from typing import Any

import numpy as np

from headstart.core.kernels.compile import pasted
from headstart.engines.fused.batches import Shape

_f, _wide = np.float32, np.float64


@pasted
def along_sphere(shape: Shape, w: Any, gradient: Any, columns: Any) -> None:
    """The gradient without its part along each neuron's weights: g - (g . w) w / |w|^2."""
    width, along, squares = shape.width, columns[0], columns[1]
    along[:], squares[:] = 0.0, 0.0
    for i in range(0, shape.dim * width, width):
        for j in range(width):
            along[j] += _wide(gradient[i + j]) * _wide(w[i + j])
            squares[j] += _wide(w[i + j]) * _wide(w[i + j])
    for j in range(shape.neurons):
        along[j] /= squares[j]
    for i in range(0, shape.dim * width, width):
        for j in range(width):
            gradient[i + j] -= _f(along[j] * _wide(w[i + j]))


@pasted
def onto_sphere(shape: Shape, w: Any, columns: Any) -> None:
    """Each neuron's weights get the norm `radius`; padding stays zero."""
    width, factors = shape.width, columns[1]
    factors[:] = 0.0
    for i in range(0, shape.dim * width, width):
        for j in range(width):
            factors[j] += _wide(w[i + j]) * _wide(w[i + j])
    for j in range(width):
        factors[j] = shape.radius / max(np.sqrt(factors[j]), 1e-30)
    for i in range(0, shape.dim * width, width):
        for j in range(width):
            w[i + j] = _f(_wide(w[i + j]) * factors[j])
