"""Norms of layers over training."""

import numpy as np
from numpy.typing import NDArray

from headstart.core.trace import Trace


def readout_ratio(trace: Trace) -> NDArray[np.float64]:
    """|a|_2 / |W|_F at every record: the readout's norm over the input layer's.

    Reference: Less Data, Faster Training, Fig. 12.
    """
    return trace["norm_readout"] / trace["norm_input"]
