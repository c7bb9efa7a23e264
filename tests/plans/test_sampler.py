"""The batch sampler: exact resume after any batch, disjoint ranks, nested subsets, no list of rows."""

import json
import re
import subprocess
import sys
import tracemalloc
import warnings
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.core.errors import HeadstartError
from headstart.plans import Phase, PhasedBatchSampler, PhaseSchedule
from headstart.plans.sampler import replicas

ROWS = 500
AUTO = PhaseSchedule.auto(0.1, 0.4, 2, steps=100, target=0.75, max_epochs=6)
TWO = PhaseSchedule([Phase(size=60, steps=10), Phase(fraction=0.4, epochs=1)], everything=12)


def sampler(schedule=TWO, batch_size=10, **options):
    return PhasedBatchSampler(ROWS, schedule, batch_size, **options)


@st.composite
def samplers(draw):
    """A function that builds one sampler, again and again."""
    batch, num_replicas, accumulate = draw(st.integers(1, 7)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    whole = batch * num_replicas * accumulate
    phases = [
        Phase(
            **draw(
                st.sampled_from([{"size": whole + draw(st.integers(0, 99))}, {"fraction": draw(st.floats(0.2, 1))}])
            ),
            **draw(st.sampled_from([{"steps": draw(st.integers(1, 9))}, {"epochs": draw(st.floats(0.1, 2))}])),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    schedule = PhaseSchedule(
        phases,
        everything=draw(st.sampled_from([1, 2, 5, "half"])),
        replacement=draw(st.booleans()),
        target=draw(st.sampled_from([None, 0.5])),
    )
    rank, seed = draw(st.integers(0, num_replicas - 1)), draw(st.integers(0, 2**32 - 1))
    return lambda: PhasedBatchSampler(ROWS, schedule, batch, seed, num_replicas, rank, accumulate=accumulate)


def metric(number):
    """What a user might report after batch `number`: any fixed function of it."""
    return (number * 7 % 11) / 10


def drawn(sampler, begin=0, report=True):
    """All batches of a pass, with a report after each; (phase, batch) pairs."""
    out = []
    for number, batch in enumerate(sampler, start=begin):
        out.append((sampler.phase, batch))
        if report and sampler.schedule.target is not None:
            sampler.report(metric(number))
    return out


@settings(max_examples=60, deadline=None)
@given(make=samplers(), data=st.data())
def test_resume_after_any_batch_gives_exactly_the_remaining_batches(make, data):
    whole = drawn(make())
    stop = data.draw(st.integers(0, len(whole)))
    first = make()
    batches = iter(first)
    seen = []
    for number in range(stop):
        seen.append((next(batches), first.phase)[::-1])
        if first.schedule.target is not None:
            first.report(metric(number))
    state = json.loads(json.dumps(first.state_dict()))
    second = make()
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert seen + drawn(second, begin=stop) == whole


@settings(max_examples=40, deadline=None)
@given(make=samplers())
def test_a_pass_has_as_many_batches_as_its_length_says_and_another_pass_is_the_same(make):
    one = make()
    whole = drawn(one)
    assert len(whole) == len(one)
    assert drawn(one) == whole


@settings(max_examples=40, deadline=None)
@given(
    num_replicas=st.integers(1, 5),
    accumulate=st.integers(1, 3),
    batch=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_ranks_take_disjoint_shares_of_the_batch_that_one_process_would_take(num_replicas, accumulate, batch, seed):
    schedule = PhaseSchedule([Phase(size=150, epochs=2)], everything=3)
    ranks = [
        PhasedBatchSampler(ROWS, schedule, batch, seed, num_replicas, rank, accumulate=accumulate)
        for rank in range(num_replicas)
    ]
    alone = PhasedBatchSampler(ROWS, schedule, batch * num_replicas, seed, 1, 0, accumulate=accumulate)
    assert {len(rank) for rank in ranks} == {len(alone)}
    for together, *apart in zip(alone, *ranks, strict=True):
        assert sorted(chain(*apart)) == sorted(together)
        assert {len(part) for part in apart} == {batch}
        assert len({rank.phase for rank in ranks} | {alone.phase}) == 1


def test_subsets_are_nested_and_random_rows():
    batches = [(phase, set(batch)) for phase, batch in drawn(sampler())]
    small, middle, everything = (set.union(*(rows for p, rows in batches if p == phase)) for phase in (0, 1, 2))
    assert len(small) == 60
    assert small < middle
    assert len(middle) == 200
    assert max(small) > 400
    assert len(everything) == 120
    assert not everything <= middle


def test_independent_subsets_share_no_row():
    schedule = PhaseSchedule([Phase(size=60, epochs=1), Phase(size=440, epochs=1)], nested=False, everything=None)
    rows = [row for _, batch in drawn(sampler(schedule)) for row in batch]
    assert len(rows) == len(set(rows)) == 500


def test_every_epoch_has_every_row_once():
    rows = [row for _, batch in drawn(sampler(PhaseSchedule([Phase(fraction=1, epochs=3)]), 7)) for row in batch]
    for epoch in range(2):
        assert sorted(rows[epoch * ROWS : (epoch + 1) * ROWS]) == list(range(ROWS))


def test_seeds_decide_subsets_and_order():
    assert drawn(sampler(seed=1)) == drawn(sampler(seed=1))
    assert drawn(sampler(seed=1)) != drawn(sampler(seed=2))


def test_each_phase_may_have_a_batch_size_of_its_own():
    schedule = PhaseSchedule([Phase(size=60, epochs=1), Phase(fraction=1, epochs=0.4)], batch_sizes=[5, 20])
    one = sampler(schedule, num_replicas=2, rank=1)
    assert [len(batch) for _, batch in drawn(one, report=False)] == [5] * 6 + [20] * 5
    assert one.batch_size is None
    assert sampler().batch_size == 10


def test_phases_count_optimizer_steps_and_accumulate_counts_micro_batches():
    phases = [phase for phase, _ in drawn(sampler(accumulate=3))]
    assert phases.count(0) == 30
    assert phases.count(2) == 36


def test_accumulated_micro_batches_are_the_parts_of_the_larger_batch():
    whole = [batch for _, batch in drawn(sampler(batch_size=30))]
    parts = [batch for _, batch in drawn(sampler(batch_size=10, accumulate=3))]
    assert [list(chain(*parts[i : i + 3])) for i in range(0, len(parts), 3)] == whole


def test_a_learned_phase_gives_way_after_its_epoch_and_an_unlearned_one_at_its_longest():
    schedule = PhaseSchedule.auto(0.1, 0.4, 2, steps=100, target=0.75, max_epochs=6, everything=10)
    one = sampler(schedule)
    phases = []
    for _ in one:
        phases.append(one.phase)
        one.report(0.9 if one.phase == 1 else 0.1)
    assert phases == [0] * 30 + [1] * 20 + [2] * 50


def test_a_report_counts_until_the_next():
    schedule = PhaseSchedule.auto(0.1, 1, 2, steps=30, target=0.75, max_epochs=5, everything=None)
    one = sampler(schedule)
    phases = []
    for number, _ in enumerate(one):
        phases.append(one.phase)
        if number == 4:
            one.report(0.8)
    assert phases == [0] * 10 + [1] * 20


def test_two_sets_share_a_batch_in_the_stated_proportion():
    schedule = PhaseSchedule.two_set(size=50, probability=0.5, steps=400)
    rows = np.array([batch for _, batch in drawn(sampler(schedule, 25))])
    often = np.argsort(np.bincount(rows.ravel(), minlength=ROWS))[-50:]
    share = np.isin(rows, often).mean()
    assert abs(share - 0.5) < 0.02
    assert len(set(rows.ravel())) == ROWS


def test_ten_million_rows_need_no_list():
    schedule = PhaseSchedule([Phase(fraction=0.5, steps=200)], everything=10)
    list(PhasedBatchSampler(1000, schedule, 64))  # what NumPy allocates once is not ours
    tracemalloc.start()
    try:
        one = PhasedBatchSampler(10_000_000, schedule, 64)
        rows = [max(batch) for batch in one]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max(rows) > 9_900_000
    assert peak < 12 * 2**20  # a list of the rows alone would take 80 megabytes
    assert len(json.dumps(one.state_dict())) < 1000


def test_a_data_set_gives_its_length():
    assert PhasedBatchSampler(list(range(ROWS)), TWO, 10).num_rows == ROWS


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PhasedBatchSampler(0, TWO), "dataset_or_length=0.*repeat_first"),
        (lambda: PhasedBatchSampler(iter([]), TWO), "dataset_or_length=<list_iterator.*repeat_first"),
        (lambda: PhasedBatchSampler(ROWS, [Phase(size=3)]), "give a PhaseSchedule"),
        (lambda: sampler(batch_size=0), "batch_size=0"),
        (lambda: sampler(accumulate=0), "accumulate=0"),
        (lambda: sampler(seed=-1), "seed=-1"),
        (lambda: sampler(num_replicas=2), "num_replicas=2, rank=None: give both"),
        (lambda: sampler(num_replicas=2, rank=2), r"rank=2: of num_replicas=2 the ranks are 0 \.\. 1"),
        (lambda: sampler(batch_size=61), "phase 1 has 60 rows, fewer than one global batch of 61"),
        (
            lambda: sampler().report(0.9),
            r"report\(metric=0\.9\): the phases .* end by their lengths.*PhaseSchedule\.auto",
        ),
        *[
            (lambda value=value: sampler(AUTO).report(value), f"metric={re.escape(repr(value))}.*one finite number")
            for value in (float("nan"), float("inf"), None, "good", [0.5, 0.6])
        ],
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: sampler(seed=1), "seed=0, this sampler has seed=1"),
        (lambda: sampler(num_replicas=2, rank=0), "num_replicas=1, this sampler has num_replicas=2"),
        (lambda: PhasedBatchSampler(ROWS + 1, TWO, 10), "num_rows=500"),
        (lambda: sampler(PhaseSchedule([Phase(size=60, steps=10)], everything=12)), "schedule="),
    ],
)
def test_a_state_of_another_sampler_is_refused(other, message):
    with pytest.raises(HeadstartError, match=message):
        other().load_state_dict(sampler().state_dict())


@pytest.mark.parametrize(
    ("junk", "message"),
    [
        (None, r"load_state_dict\(None\)"),
        ({}, "no 'batch'"),
        ("state", r"load_state_dict\('state'\)"),
        ({"batch": -5}, "42 batches saves batch=-5"),
        ({"batch": 10**9}, "batch=1000000000"),
        ({"batch": 1.5}, r"batch=1\.5"),
        ({"batch": True}, "batch=True"),
        ({"stretches": []}, r"stretches=\[\]"),
        ({"stretches": None}, "stretches=None"),
        ({"stretches": [[0, 0], [9, 3]]}, "stretches="),
        ({"stretches": [[0, 0], [1, 5], [1, 6]]}, "stretches="),
        ({"stretches": [[0, 0, 0]]}, "stretches="),
        ({"decided": -1}, "decided=-1"),
        ({"total": float("nan")}, "total=nan"),
        ({"metric": "good"}, "metric='good'"),
        ({"sampler": None}, "sampler=None"),
        ({"sampler": {}}, "num_rows=None, this sampler has num_rows=500"),
    ],
)
def test_a_state_that_is_none_is_refused_and_changes_nothing(junk, message):
    one = sampler()
    before = one.state_dict()
    state = {**before, **junk} if isinstance(junk, dict) and junk else junk
    with pytest.raises(HeadstartError, match=message):
        one.load_state_dict(state)
    assert one.state_dict() == before
    assert len(list(one)) == 42


def test_a_number_of_processes_that_is_none_is_named(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "abc")
    with pytest.raises(HeadstartError, match="WORLD_SIZE='abc': set it to the number of processes, or unset it"):
        sampler()


def test_torchrun_without_a_process_group_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(HeadstartError, match=r"WORLD_SIZE=2.*init_process_group"):
        replicas(None, None)


TWO_PROCESSES = """
import json, sys, torch.distributed as distributed
import headstart as hs
distributed.init_process_group("gloo")
schedule = hs.PhaseSchedule([hs.Phase(size=60, steps=5)], everything=5)
sampler = hs.PhasedBatchSampler(500, schedule, 8)
print(json.dumps([sampler.rank, sampler.num_replicas, [(sampler.phase, batch) for batch in sampler]]), flush=True)
distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_of_torchrun_see_disjoint_rows_of_the_same_phase(tmp_path):
    (tmp_path / "train.py").write_text(TWO_PROCESSES)
    call = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--redirects=1"]
    call += [f"--log-dir={tmp_path}", str(tmp_path / "train.py")]
    subprocess.run(call, capture_output=True, text=True, check=True)
    said = sorted(json.loads(path.read_text()) for path in tmp_path.rglob("stdout.log"))
    assert [(rank, num) for rank, num, _ in said] == [(0, 2), (1, 2)]
    alone = drawn(PhasedBatchSampler(500, PhaseSchedule([Phase(size=60, steps=5)], everything=5), 16), report=False)
    for (phase, batch), (phase0, batch0), (phase1, batch1) in zip(alone, said[0][2], said[1][2], strict=True):
        assert phase == phase0 == phase1
        assert sorted(batch) == sorted(batch0 + batch1)


def test_a_schedule_that_leaves_rows_out_says_so_once():
    schedule = PhaseSchedule.geometric(1 / 50, 1 / 10, 2, steps=20, everything=None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for seed in range(3):
            sampler(schedule, seed=seed)
    (only,) = said
    assert "this schedule uses 10% of the rows, 50 of 500" in str(only.message)
    assert only.filename == __file__


def test_by_default_no_row_is_lost():
    """The first example of the docs, on sixty thousand rows, saw twelve hundred of them."""
    one = PhasedBatchSampler(60_000, PhaseSchedule.geometric(steps=6000), batch_size=64)
    assert len(set(chain(*one))) == 60_000


def test_an_auto_schedule_that_learns_nothing_still_ends_on_everything_in_time():
    one = sampler(PhaseSchedule.auto(0.1, 0.4, 3, steps=100, max_epochs=50, everything=60))
    phases = []
    for _ in one:
        phases.append(one.phase)
        one.report(0.0)
    assert phases == [0] * 40 + [3] * 60


def test_an_auto_schedule_that_learns_at_once_is_on_everything_the_sooner():
    one = sampler(PhaseSchedule.auto(0.1, 0.2, 2, steps=100, everything=60))
    phases = []
    for _ in one:
        phases.append(one.phase)
        one.report(1.0)
    assert phases == [0] * 5 + [1] * 10 + [2] * 85


def test_ranks_share_a_row_only_where_an_epoch_ends_within_a_step():
    """The end of one epoch and the beginning of the next may hold the same row; the docstring says so."""
    rows, batch, schedule = 70, 8, PhaseSchedule([Phase(fraction=1, epochs=30)])
    ranks = [PhasedBatchSampler(rows, schedule, batch, 0, 2, rank) for rank in range(2)]
    shared = [set(one) & set(two) for one, two in zip(*ranks, strict=True)]
    spans = [step * 16 // rows != (step * 16 + 15) // rows for step in range(len(shared))]
    assert not any(rows for rows, spanning in zip(shared, spans, strict=True) if not spanning)
    assert any(rows for rows, spanning in zip(shared, spans, strict=True) if spanning)


@pytest.mark.parametrize(
    "schedule",
    [
        TWO,
        PhaseSchedule([Phase(size=60, steps=30), Phase(size=200, steps=10)], everything=40),
        PhaseSchedule([Phase(size=200, steps=10), Phase(size=60, steps=5)], everything=10, nested=False),
        PhaseSchedule([Phase(size=60, steps=10)], everything=30, replacement=True),
        PhaseSchedule.two_set(size=50, probability=0.5, steps=40),
        PhaseSchedule([], steps=60),
    ],
)
def test_the_fraction_of_rows_seen_is_what_a_count_says(schedule):
    said, counted = [], []
    for seed in range(20):
        one, seen = sampler(schedule, seed=seed), set()
        assert one.rows_seen == 0
        for batch in one:
            seen.update(batch)
            said.append(one.rows_seen)
            counted.append(len(seen) / ROWS)
    length = len(one)
    said, counted = (np.array(values).reshape(20, length).mean(axis=0) for values in (said, counted))
    assert np.abs(said - counted).max() < 0.01
    assert (np.diff(said) >= 0).all()


def test_an_unheard_schedule_says_so_before_or_at_the_end_of_its_pass():
    with pytest.warns(UserWarning, match="heard no metric in its first epoch"):
        list(sampler(AUTO))


def test_one_phase_that_nothing_can_end_needs_no_metric():
    list(sampler(PhaseSchedule.auto(1, 1, 1, steps=100, everything=None)))
