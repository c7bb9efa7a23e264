"""Event files, read back by TensorBoard itself."""

import numpy as np
import pytest

import headstart as hs
from headstart.core.trace import Trace, Traces


class Kept:
    """A store with two runs of one arm."""

    def traces(self, study):
        rng = np.random.Generator(np.random.Philox(key=3))
        steps = np.arange(0, 50, 5)
        return Traces(
            tuple(
                Trace(
                    "c" * 20,
                    seed,
                    steps,
                    steps,
                    steps * 1.0,
                    {"test_accuracy": rng.random(10), "norm_readout": rng.random(10)},
                    labels={"study": study, "arm": "small"},
                    settings={"optimizer": "SGD", "optimizer.lr": 0.1},
                )
                for seed in (0, 1)
            )
        )


def test_tensorboard_reads_what_is_exported(tmp_path):
    pytest.importorskip("tensorboard", reason="make test installs the extra tensorboard")
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
    from tensorboard.util import tensor_util

    from headstart.integrations.tensorboard import export_events

    store, out = Kept(), tmp_path / "events"
    assert export_events(store, "a/study", out) == 2
    assert export_events(store, "a/study", out) == 2  # the second takes the place of the first
    found = EventMultiplexer().AddRunsFromDirectory(str(out)).Reload()
    assert set(found.Runs()) == {"small/seed 0", "small/seed 1"}
    for trace in store.traces("a/study"):
        run = f"small/seed {trace.seed}"
        for tag, name in (("test/accuracy", "test_accuracy"), ("norm/readout", "norm_readout")):
            events = found.Tensors(run, tag)
            assert [event.step for event in events] == trace.steps.tolist()
            values = [tensor_util.make_ndarray(event.tensor_proto).item() for event in events]
            np.testing.assert_allclose(values, trace[name], rtol=1e-6)
        assert b'"optimizer.lr": 0.1' in found.Tensors(run, "settings")[0].tensor_proto.string_val[0]


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    pytest.importorskip("tensorboard", reason="make test installs the extra tensorboard")
    from headstart.integrations.tensorboard import export_events

    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(hs.HeadstartError, match="something else"):
        export_events(Kept(), "a/study", tmp_path)
