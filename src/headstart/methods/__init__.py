"""Level 3: what changes training, one idea a file."""

from headstart.methods.layer_scale import LayerScale
from headstart.methods.method import Method

__all__ = ["LayerScale", "Method"]
