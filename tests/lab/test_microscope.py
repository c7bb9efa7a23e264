"""How stable a training is: pairs, nudges, other orders, and what is said of them."""

import json
import re
import sqlite3

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import headstart as hs
from headstart.core.errors import HeadstartError
from headstart.lab.progress import Lines, Silent
from headstart.lab.stability_behaviour import one_row
from headstart.lab.stability_training import Change, Kind, Look, ProblemTraining, draw_pair, nudge_weight, state_of
from headstart.lab.stability_verdict import Compared, settle
from headstart.measures import Behaviour


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def made(num=80, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num, 4, generator=generator)
    return TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())


def accuracy(logits, target):
    return (logits.argmax(dim=1) == target).float().mean()


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


PROBLEM = hs.Problem(
    model=network,
    dataset=made(),
    test_set=made(50, seed=1),
    loss=nn.functional.cross_entropy,
    metric=accuracy,
    optimizer=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
    lr=0.1,
    batch_size=8,
)
BESIDE = {"dataset": PROBLEM.dataset, "test_set": PROBLEM.test_set, "loss": PROBLEM.loss, "metric": accuracy}


def ask(training, **options):
    return hs.stability(training, **({"pairs": 2, "copies": 1, "progress": Silent()} | options))


def values(report):
    """All that was measured, as text, so that what is no number is equal to itself."""
    return json.dumps([each.to_json() for each in report.compared])


def own(rows, seed, look):
    """The training of the problem as a function."""
    return ProblemTraining(PROBLEM, 12)(rows, seed, look)


def test_a_pair_differs_in_one_row_that_was_not_there():
    for pair in range(20):
        drawn = draw_pair(0, 12, pair, 20)
        (place,) = np.flatnonzero(drawn.rows != drawn.swapped)
        assert len(set(drawn.rows)) == 12
        assert drawn.swapped[place] not in drawn.rows
        assert set(drawn.rows) <= set(range(20))
    assert len({draw_pair(0, 12, pair, 20).seed for pair in range(20)}) == 20


def test_the_same_rows_and_seed_train_the_same_network_and_a_swap_another():
    report = ask(PROBLEM, steps=12, order_steps=(), record=(0, 6, 11))
    assert report.deterministic
    assert report.control.distances == {0: 0.0, 6: 0.0, 11: 0.0}
    assert [each.values["distance"] > 0 for each in report.pairs] == [True, True]
    assert [each.distances[0] for each in report.pairs] == [0.0, 0.0]
    assert report.nudges[0].distances[0] == pytest.approx(1e-6, rel=0.2)
    assert str(report).startswith("Deterministic: ")


def test_a_function_of_ones_own_says_what_the_problem_says():
    options = {"sizes": (40, 60), "nudge_steps": (0, 5), "order_steps": (3,), "record": (4,)}
    reports = ask(own, **BESIDE, **options), ask(PROBLEM, steps=12, **options)
    for mine, theirs in zip(*(report.compared for report in reports), strict=True):
        assert (mine.size, mine.seed, mine.change) == (theirs.size, theirs.seed, theirs.change)
        assert mine.distances == theirs.distances
        assert mine.values == pytest.approx(theirs.values, abs=1e-7)  # test rows lie in other batches


def test_trainings_are_counted():
    report = ask(PROBLEM, steps=4, pairs=3, copies=2, sizes=(30, 60), order_steps=(0, 2))
    assert report.cost.num_trainings == 6 * 2 + 1 + 2 * 3
    assert report.cost.num_compared == 6 + 1 + 2 * 3


def test_nobody_trains_on_a_row_that_is_held_out():
    seen, looked, data = set(), set(), TensorDataset(torch.zeros(100, 1), torch.arange(100.0))

    def train_fn(rows, seed):
        seen.update(rows.tolist())
        return nn.Linear(1, 1)

    def loss(prediction, target):
        looked.update(target.int().tolist())
        return prediction.mean()

    ask(train_fn, dataset=data, loss=loss, pairs=12, sizes=(60,))
    assert len(seen) == 90
    assert looked - seen == set(range(100)) - seen


class Mean(nn.Module):
    """The mean of the labels."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.tensor([float(value)]))

    def forward(self, x):
        return self.value.expand(len(x))


def mean_of(y):
    return lambda rows, seed: Mean(y[torch.from_numpy(rows)].mean())


def test_the_mean_of_labels_moves_by_their_difference_over_m():
    y = torch.linspace(0, 1, 900, dtype=torch.float64) ** 2
    data = TensorDataset(torch.zeros(900, 1), y)
    report = ask(mean_of(y), dataset=data, loss=lambda p, t: (p - t).abs().mean(), sizes=(50, 100, 200, 400), pairs=40)
    for pair in report.pairs:
        assert 0 < pair.values["distance"] <= 1 / pair.size
    found = report.exponents["distance"]
    assert found.low < -1 < found.high
    assert found.value == pytest.approx(-1, abs=0.05)
    assert "distance of weights -" in str(report)


def test_a_nudge_adds_to_one_weight_and_never_rounds_to_nothing():
    for start, added in ((0.5, 1e-6), (1000.0, 2.0**-14)):
        model = nn.Linear(3, 2)
        with torch.no_grad():
            for weight in model.parameters():
                weight.fill_(start)
        nudge_weight(model, 1e-6, seed=3)
        moved = np.concatenate([value.ravel() for value in state_of(model).weights.values()]).astype(float) - start
        assert np.count_nonzero(moved) == 1
        assert moved.max() == pytest.approx(added, rel=0.1)


def test_looking_changes_nothing_in_training():
    looked = ProblemTraining(PROBLEM, 10)(np.arange(40), 5, Look((0, 3, 9), 5))
    again = ProblemTraining(PROBLEM, 10)(np.arange(40), 5, Look((), 5))
    one, other = state_of(looked), state_of(again)
    assert all(np.array_equal(value, other.weights[name]) for name, value in one.weights.items())
    assert all(np.array_equal(value, other.buffers[name]) for name, value in one.buffers.items())


def test_another_order_begins_at_its_step():
    report = ask(PROBLEM, steps=12, order_steps=(6,), nudge_steps=(), record=(5, 6, 7, 11))
    (copy,) = report.reordered
    assert copy.distances[5] == copy.distances[6] == 0
    assert 0 < copy.distances[7] < copy.distances[11]


def test_a_training_that_does_not_repeat_itself_is_found_out_and_nothing_is_nudged():
    calls = []

    def train_fn(rows, seed, look):
        calls.append(1)
        model = own(rows, seed, look)
        with torch.no_grad():
            model[0].weight[0, 0] += 0.5 * len(calls)
        return model

    report = ask(train_fn, **BESIDE)
    assert not report.deterministic
    assert report.nudges == ()
    assert "Not deterministic" in str(report)
    assert f"differ by {report.control.values['distance']:.3g} in weights" in str(report)
    assert report.settled_from is None
    assert "make the training deterministic" in str(report)


def test_without_a_look_there_are_pairs_and_no_verdict_on_steps():
    report = ask(lambda rows, seed: own(rows, seed, Look((), seed)), **BESIDE)
    assert report.deterministic
    assert report.barrier >= 0
    assert "Cannot tell from which step on it is settled: train_fn(rows, seed) shows no steps" in str(report)


def test_a_behaviour_has_pairs_and_no_line():
    y = np.linspace(0, 1, 50)

    def train_fn(rows, seed):
        mean = y[rows].mean()
        apart = np.abs(y - mean)
        return Behaviour(apart[rows], apart[rows] > 0.5, apart, apart > 0.5, {"mean": np.array([mean])})

    report = ask(train_fn, num_rows=50)
    assert all(0 < each.values["stability"] <= 1 / 49 for each in report.pairs)
    assert np.isnan(report.barrier)
    assert "linearly" not in str(report)
    assert "<table>" in report._repr_html_()


@pytest.mark.parametrize("last", [1, 2, 4, 7])
def test_what_is_finished_before_a_stop_is_not_trained_again(tmp_path, last):
    options = {"sizes": (40, 60), "nudge_steps": (0, 5), "record": (4,)} | BESIDE
    whole = ask(own, **options)
    left = [last]

    def stopping(rows, seed, look):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        return own(rows, seed, look)

    with pytest.raises(KeyboardInterrupt):
        ask(stopping, store=tmp_path / "s.sqlite", **options)
    left[0] = 1000
    report = ask(stopping, store=tmp_path / "s.sqlite", **options)
    assert values(report) == values(whole)
    assert report.cost.num_trainings == whole.cost.num_trainings - last
    assert [path.name for path in tmp_path.iterdir()] == ["s.sqlite"]
    again = ask(stopping, store=tmp_path / "s.sqlite", **options)
    assert again.cost.num_trainings == 0
    assert again.cost.num_stored == again.cost.num_compared
    assert "from the store" in str(again)


def test_more_pairs_extend_what_is_stored(tmp_path):
    few = ask(PROBLEM, steps=5, order_steps=(), store=tmp_path)
    more = ask(PROBLEM, steps=5, order_steps=(), store=tmp_path, pairs=4)
    assert more.cost.num_trainings == 4
    assert [each.to_json() for each in few.pairs] == [each.to_json() for each in more.pairs[:2]]


def test_another_rate_is_another_training(tmp_path):
    def at(rate):
        def train_fn(rows, seed):
            return Mean(rate * rows.mean())

        return train_fn

    data = TensorDataset(torch.zeros(40, 1), torch.zeros(40))
    options = {"dataset": data, "loss": lambda p, t: p.mean(), "store": tmp_path}
    one, other, again = (ask(at(rate), **options) for rate in (0.1, 0.2, 0.1))
    assert one.cost.num_trainings == other.cost.num_trainings > 0
    assert again.cost.num_trainings == 0
    assert other.pairs[0].values["distance"] == pytest.approx(2 * one.pairs[0].values["distance"], rel=1e-4)


def test_a_damaged_comparison_is_made_again(tmp_path):
    path = tmp_path / "s.sqlite"
    whole = ask(PROBLEM, steps=5, store=path)
    with sqlite3.connect(path) as database:
        database.execute("update compared set found = replace(found, '\"pair\": 1', '\"pair\": 0')")
    database.close()
    again = ask(PROBLEM, steps=5, store=path)
    assert values(again) == values(whole)
    assert again.cost.num_trainings == 2


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("create table mine (x)")
    database.close()
    with pytest.raises(HeadstartError, match=r"other.sqlite.*no store of comparisons"):
        ask(PROBLEM, steps=5, store=path)


def test_progress_is_shown(capsys):
    ask(PROBLEM, steps=3, progress=Lines(every=0.0))
    shown = capsys.readouterr().err
    assert "stability: 8 trainings" in shown
    assert "79 rows, pair 1" in shown


def copy(step, barrier, kind=Kind.ORDER, distance=1.0, stability=0.5, end=0.9):
    found = {"barrier": barrier, "distance": distance, "stability": stability, "start": 0.1, "end": end}
    return Compared(10, 0, 0, Change(kind, step), found)


SWAP = copy(0, 0.0, Kind.SWAP)


def test_settled_is_the_first_step_from_which_on_all_copies_are_connected():
    found = settle((SWAP, copy(0, 0.0), copy(5, 0.3), copy(5, 0.0), copy(9, 0.01), copy(20, 0.0)), 0.02, "")
    assert (found.step, found.after) == (9, 5)
    assert found.connected == {0: (1, 1), 5: (1, 2), 9: (1, 1), 20: (1, 1)}
    found = settle((SWAP, copy(0, 0.0), copy(5, 0.0)), 0.02, "")
    assert (found.step, found.after) == (0, None)


@pytest.mark.parametrize(
    ("copies", "within", "reason"),
    [
        ((), 0.02, "no step was disturbed"),
        ((copy(0, 0.0), copy(5, 0.3)), 0.02, "copies still part from step 5 on.*give later order_steps"),
        ((copy(0, 0.0),), None, "there is no metric"),
        ((copy(0, float("nan")),), 0.02, "a Behaviour has no line"),
        ((copy(0, 0.0, end=0.12),), 0.02, "nothing was learned, the metric went from 0.1 to 0.12: raise steps"),
        ((copy(0, 0.0, Kind.NUDGE, distance=0.001),), 0.02, "had not grown apart by the end, 0.001 in weights"),
        ((copy(0, 0.0, Kind.NUDGE, stability=0.0),), 0.02, "changes no test row: raise copies"),
        ((copy(3, 0.0, stability=0.0),), 0.02, "another seed of torch's generators before step 3 changed nothing"),
    ],
)
def test_it_says_when_it_cannot_tell(copies, within, reason):
    found = settle((SWAP, *copies), within, "")
    assert found.step is None
    assert re.search(reason, found.reason)


def test_parity_is_not_settled_at_the_start_and_is_later():
    generator = torch.Generator().manual_seed(0)
    x = 2.0 * torch.randint(0, 2, (2500, 12), generator=generator) - 1.0
    y = (x[:, :3].prod(dim=1) > 0).long()
    parity = hs.Problem(
        model=lambda: nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2)),
        dataset=TensorDataset(x[:1000], y[:1000]),
        test_set=TensorDataset(x[2000:], y[2000:]),
        loss=nn.functional.cross_entropy,
        metric=accuracy,
        optimizer=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
        lr=0.1,
    )
    report = ask(parity, steps=300, order_steps=(0, 30, 100), nudge_steps=(), copies=2)
    assert (report.settled_from, report.settled.after) == (100, 30)
    assert max(each.values["barrier"] for each in report.reordered) > 0.1
    assert "Settled from step 100 on, not yet from 30" in str(report)
    assert "2 copies of 2 say that at least 22% are (95%)" in str(report)


def test_a_report_is_a_table_a_page_and_json():
    report = ask(PROBLEM, steps=6, sizes=(40, 60), order_steps=(2,), record=(0, 5))
    frame = report.to_pandas()
    assert frame["change"].tolist() == ["swap", "swap", "none", "swap", "nudge", "order", "swap"]
    assert frame["size"].tolist() == [40, 40, 60, 60, 60, 60, 60]
    assert {"distance", "stability", "barrier", "loss_gap", "error_gap", "seed", "at_step"} <= set(frame.columns)
    records = report.to_pandas(records=True)
    assert len(records) == 14
    assert set(records["step"]) == {0, 5}
    assert "<td>40</td>" in report._repr_html_()
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert data["deterministic"] is True
    assert data["cost"]["trainings"] == report.cost.num_trainings
    assert set(data["exponents"]) == set(report.exponents) >= {"stability", "distance", "error_gap"}
    assert repr(report).startswith("StabilityReport(4 pairs, sizes (40, 60)")


def test_rows_of_a_dict_and_a_step_of_ones_own_are_looked_at_one_by_one():
    x, y = PROBLEM.dataset.tensors
    rows = [{"x": a, "y": b} for a, b in zip(x, y, strict=True)]
    own_step = hs.Problem(
        model=network,
        dataset=rows,
        step=lambda model, batch: nn.functional.cross_entropy(model(batch["x"]), batch["y"]),
        metric=lambda model, batch: accuracy(model(batch["x"]), batch["y"]),
        test_set=[{"x": a, "y": b} for a, b in zip(*PROBLEM.test_set.tensors, strict=True)],
        optimizer=PROBLEM.optimizer,
        lr=0.1,
        batch_size=8,
    )
    one, other = (ask(each, steps=6, order_steps=(), nudge_steps=()) for each in (own_step, PROBLEM))
    for mine, theirs in zip(one.pairs, other.pairs, strict=True):
        assert mine.values == pytest.approx(theirs.values, rel=1e-3, abs=1e-5)


def test_a_row_of_a_batch_is_a_batch_of_one_row():
    batch = {"x": torch.arange(6).view(3, 2), "names": ["a", "b", "c"], "pair": (torch.arange(3), torch.zeros(3))}
    row = one_row(batch, 1, 3)
    assert row["x"].tolist() == [[2, 3]]
    assert row["names"] == ["b"]
    assert row["pair"][0].tolist() == [1]
    with pytest.raises(HeadstartError, match=r"shape \(2,\).*batch of 3 rows"):
        one_row(torch.zeros(2), 0, 3)


@pytest.mark.parametrize(
    ("training", "options", "message"),
    [
        (PROBLEM, {"pairs": 0}, r"pairs=0.*at least 1"),
        (PROBLEM, {"sizes": (80,)}, r"sizes=80.*80 rows.*at most 79"),
        (PROBLEM, {"sizes": (20, 20)}, r"sizes=\(20, 20\).*different"),
        (PROBLEM, {"steps": 10, "nudge_steps": (10,)}, r"nudge_steps=10.*steps 0 to 9"),
        (PROBLEM, {"steps": 10, "record": (-1,)}, r"record=-1.*at least 0"),
        (PROBLEM, {"nudge": 0}, r"nudge=0.*above 0"),
        (PROBLEM, {"metric": accuracy}, r"metric=\.\.\..*Problem has its own"),
        (PROBLEM, {"within": -1}, r"within=-1"),
        (lambda rows: None, {}, r"give train_fn\(rows, seed\)"),
        (lambda rows, seed, extra: None, {}, r"\(rows, seed, extra\).*give train_fn\(rows, seed\)"),
        (lambda rows, seed: None, {}, r"give dataset=\.\.\. with loss.*num_rows"),
        (lambda rows, seed: None, {"num_rows": 9, "steps": 5}, r"steps=5.*train_fn decides"),
        (lambda rows, seed: None, {"num_rows": 9}, r"returned a NoneType; return the trained nn.Module"),
        (lambda rows, seed: network(), {"num_rows": 9}, r"dataset=None.*give dataset"),
        (lambda rows, seed: None, {"num_rows": 9, "loss": accuracy}, r"loss=\.\.\., dataset=None"),
        (lambda rows, seed: None, {"num_rows": 9, "record": (5,)}, r"record=\(5,\).*let it take look"),
        (lambda rows, seed: 1 / 0, {"num_rows": 9}, r"train_fn raised ZeroDivisionError"),
        (own, {"nudge_steps": (50,), **BESIDE}, r"nudge_steps=50.*up to step 11"),
        ("no_module_of_this_name:train", {}, r"no_module_of_this_name"),
    ],
)
def test_a_mistake_is_named_with_its_value_and_what_to_do(training, options, message):
    with pytest.raises(HeadstartError, match=message):
        ask(training, **options)


def test_a_training_that_diverges_says_at_which_step():
    wild = hs.Problem(
        model=lambda: nn.Linear(4, 1),
        dataset=TensorDataset(PROBLEM.dataset.tensors[0], torch.randn(80, 1, generator=torch.Generator())),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr),
        lr=1e20,
        batch_size=8,
    )
    with pytest.raises(HeadstartError, match=r"diverged at step \d+.*lower Problem\(lr=1e\+20\)"):
        ask(wild, steps=20)
