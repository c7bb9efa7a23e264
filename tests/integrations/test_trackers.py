"""A tracker hears the phase and the fraction of rows seen: once per optimizer step, and of every new phase."""

import pytest
import torch
from torch.utils.data import TensorDataset

import headstart as hs
from headstart.integrations.trackers import PhaseTracker

SCHEDULE = hs.PhaseSchedule([hs.Phase(size=20, steps=3)], everything=4)


class Writer:
    """The one method of TensorBoard's SummaryWriter that is called."""

    def __init__(self):
        self.heard = []

    def add_scalar(self, tag, scalar_value, global_step=None):
        self.heard.append((global_step, tag, scalar_value))


class Run:
    """The one method of a W&B run that is called."""

    def __init__(self):
        self.heard = []

    def log(self, data, step=None):
        self.heard += [(step, name, value) for name, value in data.items()]


def loader(**options):
    return hs.PhasedLoader(TensorDataset(torch.arange(100)), SCHEDULE, 10, **options)


def heard_by(to, every=1, **options):
    batches = loader(**options)
    track = PhaseTracker(batches, to, every)
    for _ in batches:
        track()
    return to.heard


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"num_workers": 2}])
@pytest.mark.parametrize("kind", [Writer, Run])
def test_a_tracker_hears_every_step_once(kind, options):
    options = {"accumulate": 1, **options}
    heard = heard_by(kind(), **options)
    assert [(step, value) for step, name, value in heard if name == "schedule/phase"] == [
        (step, float(step >= 3)) for step in range(7)
    ]
    seen = [value for _, name, value in heard if name == "schedule/rows_seen"]
    assert seen[:3] == pytest.approx([0.1, 0.2, 0.2] if options["accumulate"] == 1 else [0.2, 0.2, 0.2])
    assert seen == sorted(seen)


def test_steps_may_be_left_out_but_no_new_phase():
    assert [step for step, name, _ in heard_by(Writer(), every=5) if name.endswith("phase")] == [0, 3, 5]


def test_a_function_will_do():
    heard = []
    batches = loader()
    track = PhaseTracker(batches, lambda values, step: heard.append((step, values["schedule/phase"])))
    for _ in batches:
        track()
    assert len(heard) == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PhaseTracker([1], print), r"loader=\[1\]"),
        (lambda: PhaseTracker(loader(), None), "to=None.*SummaryWriter"),
        (lambda: PhaseTracker(loader(), print, every=0), "every=0"),
    ],
)
def test_a_mistake_is_named(make, message):
    with pytest.raises(hs.HeadstartError, match=message):
        make()


def test_tensorboard_itself(tmp_path):
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tmp_path)
    batches = loader()
    track = PhaseTracker(batches, writer)
    for _ in batches:
        track()
    writer.close()
    assert any(path.stat().st_size > 100 for path in tmp_path.iterdir())
