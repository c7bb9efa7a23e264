"""The loader counts what it delivered; random labels leave the data set alone; streams repeat their beginning."""

import itertools
import json
import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from headstart.core.errors import HeadstartError
from headstart.plans import Phase, PhasedLoader, PhaseSchedule, Relabel, repeat_first

ROWS = 200
SCHEDULE = PhaseSchedule([Phase(size=40, steps=8)], everything=10)
AUTO = PhaseSchedule.auto(0.1, 0.4, 3, steps=60, target=0.75, max_epochs=10)


def data():
    return TensorDataset(torch.arange(ROWS), torch.arange(ROWS) % 3)


def rows(loader):
    return [batch[0].tolist() for batch in loader]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("stop", [0, 5, 17])
def test_a_loop_that_stops_goes_on_with_what_it_has_not_seen(num_workers, stop):
    whole = rows(PhasedLoader(data(), SCHEDULE, 10))
    first = PhasedLoader(data(), SCHEDULE, 10, num_workers=num_workers)
    seen = [batch[0].tolist() for batch in itertools.islice(first, stop)]
    state = json.loads(json.dumps(first.state_dict()))
    assert state["batch"] == stop
    second = PhasedLoader(data(), SCHEDULE, 10, num_workers=num_workers)
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert seen + rows(second) == whole
    assert len(second) == len(whole)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_auto_schedule_resumes_with_the_phases_it_had_begun(num_workers):
    def train(loader, begin, end):
        out = []
        for number, batch in enumerate(loader, start=begin):
            out.append((loader.phase, batch[0].tolist()))
            loader.report(0.9 if number > 6 else 0.1)
            if number + 1 == end:
                break
        return out

    options = {"num_workers": num_workers}
    whole = train(PhasedLoader(data(), AUTO, 10, **options), 0, 60)
    assert {phase for phase, _ in whole} == {0, 1, 2, 3}
    for stop in (6, 9, 10, 14, 30):
        first = PhasedLoader(data(), AUTO, 10, **options)
        seen = train(first, 0, stop)
        state = json.loads(json.dumps(first.state_dict()))
        second = PhasedLoader(data(), AUTO, 10, **options)
        second.load_state_dict(state)
        rest = train(second, stop, 60)
        if num_workers == 0:
            assert seen + rest == whole
        else:
            # What was fetched ahead of the last report is fetched again; phases may begin so many batches apart.
            ahead = max(int(state["decided"]) - stop, 0)
            assert rest[:ahead] == whole[stop : stop + ahead]


def test_a_new_pass_begins_at_the_beginning():
    loader = PhasedLoader(data(), SCHEDULE, 10)
    assert [batch[0].tolist() for batch in itertools.islice(loader, 3)] == rows(loader)[:3]


def test_phase_and_step_are_of_the_batch_in_hand():
    loader = PhasedLoader(data(), SCHEDULE, 5, accumulate=2, num_workers=2)
    said = [(loader.phase, loader.step) for _ in loader]
    assert said == [(0 if step < 8 else 1, step) for step in range(18) for _ in range(2)]


class Words(Dataset):
    """Examples as mappings, fetched a batch at a time."""

    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return {"row": row, "labels": row % 3}

    def __getitems__(self, rows):
        return [self[row] for row in rows]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("dataset", [data(), Words()], ids=["tuples", "mappings"])
def test_a_random_label_phase_keeps_one_label_a_row_and_the_data_as_it_was(dataset, num_workers):
    loader = PhasedLoader(dataset, SCHEDULE, 10, relabel=3, num_workers=num_workers)
    drawn, true = {}, {}
    for batch in loader:
        x, y = (batch["row"], batch["labels"]) if isinstance(batch, dict) else batch
        assert y.dtype == torch.int64
        for row, label in zip(x.tolist(), y.tolist(), strict=True):
            seen = drawn if loader.phase == 0 else true
            assert seen.setdefault(row, label) == label
    assert all(label == row % 3 for row, label in true.items())
    assert set(drawn.values()) == {0, 1, 2}
    assert 0.1 < np.mean([label == row % 3 for row, label in drawn.items()]) < 0.7
    assert dataset[7] == ({"row": 7, "labels": 1} if isinstance(dataset, Words) else (torch.tensor(7), torch.tensor(1)))


def test_random_labels_may_be_signs_over_several_phases():
    signs = TensorDataset(torch.arange(ROWS), torch.full((ROWS,), 5.0))
    loader = PhasedLoader(signs, SCHEDULE, 10, relabel=Relabel((-1.0, 1.0), phases=2))
    assert {y for _, ys in loader for y in ys.tolist()} == {-1.0, 1.0}


def test_other_options_go_to_torch():
    loader = PhasedLoader(data(), SCHEDULE, 10, collate_fn=len)
    assert list(loader) == [10] * 18


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PhasedLoader(data(), SCHEDULE, 10, shuffle=True), "shuffle=True.*leave it out"),
        (lambda: Relabel(1), "classes=1.*at least two"),
        (lambda: Relabel(None), r"classes=None.*such as 10, or as labels, such as \(-1\.0, 1\.0\)"),
        (lambda: Relabel("ab"), "classes='ab'.*such as 10"),
        (lambda: Relabel(True), "classes=True.*such as 10"),
        (lambda: Relabel(2.0), r"classes=2\.0.*such as 10"),
        (lambda: Relabel((0.0, float("nan"))), "classes=.*nan"),
        (lambda: Relabel((0, "b")), "classes=.*'b'"),
        (lambda: Relabel((1.0, 1.0)), "at least two classes"),
        (lambda: Relabel(2, key=3), "key=3"),
        (lambda: Relabel(2, phases=None), "phases=None"),
        (lambda: PhasedLoader(data(), SCHEDULE, 10, relabel="ab"), "classes='ab'"),
        (lambda: next(iter(PhasedLoader([(1, [2, 3])] * 50, SCHEDULE, 10, relabel=2))), "one number.*not a list"),
        (
            lambda: next(iter(PhasedLoader([(1, torch.zeros(3))] * 50, SCHEDULE, 10, relabel=2))),
            r"not a Tensor of shape \(3,\)",
        ),
        (lambda: PhasedLoader(data(), SCHEDULE, 10).report(0.5), r"report\(metric=0\.5\).*leave report out"),
        (lambda: PhasedLoader(data(), SCHEDULE, 10).load_state_dict({}), "no 'batch'; give what state_dict returned"),
        (lambda: Relabel(2, phases=0), "phases=0"),
        (lambda: next(iter(PhasedLoader([1.0] * 50, SCHEDULE, 10, relabel=2))), "not float"),
        (lambda: next(iter(PhasedLoader(Words(), SCHEDULE, 10, relabel=Relabel(2, key="y")))), "key='y'.*row, labels"),
        (lambda: repeat_first([1], 0, 1), "size=0"),
        (lambda: repeat_first([1], 1, 0), "epochs=0"),
        (lambda: repeat_first(3, 1, 1), "iterable=3"),
    ],
)
def test_a_mistake_is_named(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()


def test_a_stream_sees_its_first_items_again_and_then_the_rest():
    items = list(itertools.islice(repeat_first(itertools.count(), size=50, epochs=3), 250))
    assert items[:50] == list(range(50))
    assert sorted(items[50:100]) == sorted(items[100:150]) == list(range(50))
    assert items[50:100] != items[100:150]
    assert items[150:] == list(range(50, 150))


def test_one_epoch_is_the_stream_itself_and_a_short_stream_is_repeated_whole():
    assert list(repeat_first(range(9), size=4, epochs=1)) == list(range(9))
    assert sorted(repeat_first("ab", size=5, epochs=3)) == list("aaabbb")
    assert list(repeat_first([], size=5, epochs=3)) == []


def test_a_stream_that_can_be_read_twice_gives_the_same_twice():
    stream = repeat_first(range(20), size=10, epochs=2, seed=3)
    assert list(stream) == list(stream)


@pytest.mark.parametrize("label", [1, 1.5, np.int64(1), np.array(1), np.array([1]), torch.tensor(1), torch.tensor([1])])
def test_a_random_label_has_the_type_of_the_true_one(label):
    (_, drawn) = Relabel((0.0, 2.0)).apply((None, label), 2.0)
    assert type(drawn) is type(label)
    assert drawn == 2


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_auto_schedule_that_never_hears_its_metric_says_so_after_an_epoch(num_workers):
    loader = PhasedLoader(data(), AUTO, 10, num_workers=num_workers)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        batches, after = iter(loader), []
        for number in range(60):
            next(batches)
            # JAX, where it is installed for the benchmark, warns of the forks of workers.
            heard = [one for one in said if "os.fork" not in str(one.message)]
            after.append((number, len(heard)))
    # An epoch of 20 rows is two batches; asking for the third is too late.
    assert after[:3] == [(0, 0), (1, 0), (2, 1)]
    (only,) = heard
    assert "heard no metric in its first epoch" in str(only.message)


def test_the_loader_says_how_many_rows_were_seen():
    loader = PhasedLoader(data(), SCHEDULE, 10, num_workers=2)
    seen = [loader.rows_seen for _ in loader]
    assert loader.rows_seen == seen[-1]
    assert PhasedLoader(data(), SCHEDULE, 10).rows_seen == 0
    assert seen[:8] == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.2, 0.2, 0.2, 0.2])
    assert seen[-1] == pytest.approx(0.2 + 0.5 * 0.8)
