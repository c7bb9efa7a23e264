"""Norms of layers."""

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.trace import Trace
from headstart.measures import readout_ratio


def make_trace(**values):
    steps = np.arange(2)
    return Trace("cell", 0, steps, steps, steps * 1.0, {k: np.array(v) for k, v in values.items()})


def test_the_readout_ratio_is_the_readout_norm_over_the_input_norm():
    assert readout_ratio(make_trace(norm_readout=[1.0, 3.0], norm_input=[2.0, 4.0])).tolist() == [0.5, 0.75]


def test_a_model_without_an_input_layer_has_no_readout_ratio():
    with pytest.raises(HeadstartError, match="norm_input"):
        readout_ratio(make_trace(norm_readout=[1.0, 3.0]))
