"""Many small networks at once: serial numba kernels that release the GIL; threads over chunks are the caller's.

Importing this package does not import numba; the kernels are compiled, or read from the cache, on first use.
"""

from headstart.engines.fused.engine import Fused
from headstart.engines.fused.layout import group_key

__all__ = ["Fused", "group_key"]
