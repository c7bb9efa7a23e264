"""States: one currency, one file."""

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.state import State
from headstart.core.units import Cost

STATE = State(
    weights={"layers.0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "a/b": np.ones(2)},
    buffers={"norm.num_batches_tracked": np.asarray(7)},
    moments={"exp_avg/layers.0.weight": np.zeros((2, 3), dtype=np.float32)},
    hooks={"0/layers.0.weight": np.full((2, 3), 0.5)},
    place={"leg": np.asarray(1), "total": np.asarray(0.25)},
    counters={"step": np.asarray(12), "age/layers.0.weight": np.asarray(12)},
)


def test_a_state_survives_its_file():
    again = State.from_bytes(STATE.to_bytes())
    assert again.flat().keys() == STATE.flat().keys()
    for name, array in STATE.flat().items():
        assert again.flat()[name].dtype == array.dtype
        assert again.flat()[name].shape == array.shape, name
        assert np.array_equal(again.flat()[name], array)


def test_counters_and_ages_are_numbers():
    assert STATE.counter("step") == 12
    assert STATE.counter("never") == 0
    assert STATE.ages(("layers.0.weight", "a/b")) == [12, 0]


def test_a_part_that_states_do_not_have_is_named():
    with pytest.raises(HeadstartError, match="part 'colours'; there are weights"):
        State.unflat({"colours/red": np.zeros(1)})


def test_costs_add_up():
    assert sum([Cost(1, 2, 3.0, 4.0), Cost(10, 20, 30.0, 40.0)], Cost()) == Cost(11, 22, 33.0, 44.0)
