"""The random streams inside kernels are those of headstart.core.streams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.core.kernels.compile import kernels
from headstart.core.streams import Stream, normals, signs
from headstart.core.units import Batch, Budget
from headstart.engines.fused.layout import Layout, uses_tables
from headstart.engines.fused.trainer import Trainer
from headstart.engines.lower import lower
from headstart.losses import MSE
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Course, Leg, Online, Place, Pool
from headstart.run import Run
from headstart.tasks import Hermite, Parity, SingleIndex

seeds = st.integers(0, 2**32 - 1)
first_ids = st.sampled_from([0, 1, 2**31, 2**32 - 3, 2**40])


def trainer(task, depth, seed):
    """The arrays and kernels of one member; its backend draws samples."""
    run = Run(task, MLP(4, depth, bias=False), Online(), MSE(), SGD(0.1), batch=Batch(8), budget=Budget(1), seed=seed)
    lowered = lower(run)
    return Trainer(Layout(run.parameters, uses_tables(run)), [lowered], [lowered.fresh()])


def unpack(backend, blocks, num):
    """Inputs [num, dim] and targets [num] of samples in blocks."""
    blocks = blocks.reshape(-1, backend.scratch.rows + 1, backend.dense.CHUNK).transpose(0, 2, 1)
    flat = blocks.reshape(-1, backend.scratch.rows + 1)[:num]
    return flat[:, : backend.shape.dim], flat[:, -1]


@settings(max_examples=25, deadline=None)
@given(seed=seeds, dim=st.integers(1, 63), first=first_ids, num=st.integers(1, 300))
def test_packed_samples_are_the_signs_of_the_stream(seed, dim, first, num):
    backend = trainer(Parity(dim, 1), 2, seed).backend
    words = np.zeros(num, dtype=np.uint64)
    backend.bits.fill_words(backend.shape, np.uint64(seed), np.uint64(2), first, words, backend.scratch)
    bits = (words[:, None] >> np.arange(dim, dtype=np.uint64)) & np.uint64(1)
    assert np.array_equal(1 - 2.0 * bits, signs(seed, Stream.DATA, first + np.arange(num), dim))
    assert (words < 2**dim).all()


@settings(max_examples=15, deadline=None)
@given(seed=seeds, dim=st.integers(1, 300), first=first_ids, num=st.integers(1, 150))
def test_blocks_of_signs_are_the_samples_of_the_task(seed, dim, first, num):
    task = Parity(dim, min(dim, 3))
    backend = trainer(task, 3, seed).backend
    out = backend._blocks(num)
    backend._fill(out, [0], np.uint64(2), first, num)
    x, y = unpack(backend, out[0], num)
    expected = task.sample(seed, first + np.arange(num))
    assert np.array_equal(x, expected.x)
    assert np.array_equal(y, expected.y)


@settings(max_examples=15, deadline=None)
@given(seed=seeds, dim=st.integers(1, 50), degree=st.integers(1, 5), first=first_ids, num=st.integers(1, 150))
def test_blocks_of_normals_are_those_of_the_task_to_four_units_in_the_last_place(seed, dim, degree, first, num):
    task = SingleIndex(dim, Hermite(degree))
    backend = trainer(task, 2, seed).backend
    out = backend._blocks(num)
    backend._fill(out, [0], np.uint64(2), first, num)
    x, y = unpack(backend, out[0], num)
    expected = task.sample(seed, first + np.arange(num))
    np.testing.assert_array_max_ulp(np.ascontiguousarray(x), expected.x, maxulp=4)
    np.testing.assert_allclose(y, expected.y, rtol=1e-4, atol=1e-4)


def test_a_million_normals_are_within_four_units_in_the_last_place():
    backend = trainer(SingleIndex(50), 2, 7).backend
    out = backend._blocks(20_000)
    backend._fill(out, [0], np.uint64(2), 0, 20_000)
    x, _ = unpack(backend, out[0], 20_000)
    np.testing.assert_array_max_ulp(np.ascontiguousarray(x), normals(7, Stream.DATA, np.arange(20_000), 50), maxulp=4)


@pytest.fixture(scope="module")
def draw():
    from numba import njit

    draw_ids = kernels("engines.fused.batches").draw_ids

    @njit(cache=True)
    def call(plan, seed, step, ids, keys):
        draw_ids(plan, seed, step, ids, keys)

    return call


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    size=st.one_of(st.none(), st.integers(1, 5000), st.sampled_from([2**14, 2**20 + 1])),
    batch=st.integers(1, 200),
    first=st.sampled_from([0, 5, 2**33]),
    replacement=st.booleans(),
    leg=st.integers(0, 3),
    began=st.integers(0, 50),
    steps=st.integers(0, 300),
)
def test_batches_hold_the_ids_of_the_course(draw, seed, size, batch, first, replacement, leg, began, steps):
    course = Course((Leg(Pool(first, size), replacement=replacement),) * 4, batch)
    step = began + steps
    expected = course.ids(Place(seed, leg, began), step)
    plan = kernels("engines.fused.batches").Batches(
        batch, 0, first, -1 if size is None else size, int(replacement), leg, began, 0, 0
    )
    ids = np.zeros(batch, dtype=np.int64)
    draw(plan, np.uint64(seed), step, ids, np.zeros(8, dtype=np.uint64))
    assert np.array_equal(ids, expected)
