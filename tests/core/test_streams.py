"""The random streams: known answers, purity, independence and distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headstart.core.errors import HeadstartError
from headstart.core.streams import Stream, integers, normals, permute, philox, signs, uniforms, words

seeds = st.integers(0, 2**32 - 1)
some_ids = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20)
few = settings(max_examples=25, deadline=None)

DRAWS = [
    pytest.param(lambda seed, stream, ids, num: words(seed, stream, ids, num), id="words"),
    pytest.param(lambda seed, stream, ids, num: signs(seed, stream, ids, num), id="signs"),
    pytest.param(lambda seed, stream, ids, num: uniforms(seed, stream, ids, num), id="uniforms"),
    pytest.param(lambda seed, stream, ids, num: normals(seed, stream, ids, num), id="normals"),
    pytest.param(lambda seed, stream, ids, num: integers(seed, stream, ids, num, 1000), id="integers"),
]


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, answer):
    counter, key, answer = ([int(word, 16) for word in text.split()] for text in (counter, key, answer))
    assert [int(word) for word in philox(tuple(counter), tuple(key))] == answer


def test_words_are_the_blocks_of_counter_id_and_lane_under_key_seed_and_stream():
    id = 7 + (9 << 32)
    lanes = [philox((7, 9, lane, 0), (42, int(Stream.ORDER))) for lane in (0, 1)]
    assert words(42, Stream.ORDER, [id], 6)[0].tolist() == np.ravel(lanes)[:6].tolist()


def test_the_numbers_of_one_id_never_change():
    at = (7, Stream.DATA, [123])
    assert words(*at, 3).tolist() == [[643495461, 1360372314, 4109606750]]
    assert "".join("-+"[int(s > 0)] for s in signs(*at, 40)[0]) == "-+-++-+++--+----+-+--+-++--++-+++-+--+-+"
    np.testing.assert_allclose(
        uniforms(*at, 3), [[0.14982546248938888, 0.31673636159393936, 0.9568423848832026]], rtol=1e-14
    )
    np.testing.assert_allclose(
        normals(*at, 3), [[-0.7932969927787781, 1.7796764373779297, -0.13146111369132996]], rtol=1e-6
    )
    assert integers(*at, 4, 100).tolist() == [[14, 31, 95, 32]]
    assert permute(7, Stream.ORDER, 123, np.arange(10), 10).tolist() == [2, 1, 7, 8, 6, 3, 4, 5, 9, 0]
    assert permute(7, Stream.ORDER, 123, [0, 1, 2**40], 2**40 + 1).tolist() == [980022411792, 818053342404, 18044549095]


def test_the_streams_keep_their_numbers():
    assert {stream.name.lower(): int(stream) for stream in Stream} == {
        "task": 0,
        "init": 1,
        "data": 2,
        "order": 3,
        "labels": 4,
        "noise": 5,
        "evaluation": 6,
    }


@pytest.mark.parametrize("draw", DRAWS)
@few
@given(seed=seeds, ids=some_ids, num=st.integers(1, 40), data=st.data())
def test_a_sample_does_not_depend_on_its_neighbours(draw, seed, ids, num, data):
    together = draw(seed, Stream.DATA, np.array(ids, dtype=np.uint64), num)
    for row, id in zip(together, ids, strict=True):
        assert np.array_equal(row, draw(seed, Stream.DATA, [id], num)[0])
    order = data.draw(st.permutations(range(len(ids))))
    shuffled = draw(seed, Stream.DATA, np.array(ids, dtype=np.uint64)[order], num)
    assert np.array_equal(shuffled, together[order])


@pytest.mark.parametrize("draw", DRAWS)
@few
@given(seed=seeds, num=st.integers(1, 40), more=st.integers(0, 40))
def test_asking_for_more_numbers_does_not_change_the_first(draw, seed, num, more):
    ids = np.arange(3)
    assert np.array_equal(draw(seed, Stream.DATA, ids, num + more)[:, :num], draw(seed, Stream.DATA, ids, num))


@pytest.mark.parametrize("other", [(0, Stream.EVALUATION, 0), (1, Stream.DATA, 0), (0, Stream.DATA, 10**6)])
def test_streams_seeds_and_ids_are_independent(other):
    num = 100_000
    seed, stream, first = other
    one = normals(0, Stream.DATA, np.arange(num), 1)[:, 0]
    two = normals(seed, stream, np.arange(first, first + num), 1)[:, 0]
    for a, b in ((one, two), (np.abs(one), np.abs(two))):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(num)


def test_the_coordinates_of_a_sample_are_independent():
    z = normals(3, Stream.DATA, np.arange(50_000), 6)
    assert np.abs(np.corrcoef(z.T) - np.eye(6)).max() < 5 / np.sqrt(len(z))
    assert np.abs(np.corrcoef((z**2).T) - np.eye(6)).max() < 5 / np.sqrt(len(z))


def test_uniforms_and_normals_pass_a_kolmogorov_smirnov_test():
    ids = np.arange(20_000)
    u, z = uniforms(5, Stream.NOISE, ids, 3).ravel(), normals(5, Stream.NOISE, ids, 3).ravel()
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert u.min() > 0
    assert u.max() < 1


def test_normals_have_the_moments_of_a_standard_normal():
    z = normals(6, Stream.DATA, np.arange(100_000), 2).astype(np.float64).ravel()
    moments = [np.mean(z**p) for p in range(1, 7)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3, 0, 15], atol=0.35)
    assert abs(moments[0]) < 0.01
    assert abs(moments[1] - 1) < 0.015


def test_signs_are_fair_and_have_no_other_values():
    s = signs(8, Stream.DATA, np.arange(20_000), 70)
    assert set(np.unique(s)) == {-1.0, 1.0}
    assert np.abs(s.mean(axis=0)).max() < 5 / np.sqrt(len(s))


def test_integers_are_uniform_below_their_bound():
    counts = np.bincount(integers(9, Stream.ORDER, np.arange(7_000), 10, 13).ravel(), minlength=13)
    assert len(counts) == 13
    assert stats.chisquare(counts).pvalue > 1e-3
    assert integers(9, Stream.ORDER, [0], 5, 1).tolist() == [[0] * 5]
    assert np.array_equal(integers(9, Stream.ORDER, [0], 5, 2**32), words(9, Stream.ORDER, [0], 5))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, id=st.integers(0, 2**64 - 1), size=st.integers(1, 3000))
def test_permute_is_a_bijection(seed, id, size):
    assert np.array_equal(np.sort(permute(seed, Stream.ORDER, id, np.arange(size), size)), np.arange(size))


@pytest.mark.parametrize("size", [2**31 - 1, 2**32 + 1, 10**12, 2**61, 2**62 - 1])
def test_permute_is_injective_on_large_sizes(size):
    index = np.concatenate([np.arange(5_000), size - 1 - np.arange(5_000)])
    image = permute(1, Stream.ORDER, 0, index, size)
    assert len(np.unique(image)) == len(index)
    assert image.min() >= 0
    assert image.max() < size
    assert stats.kstest(image / size, "uniform").pvalue > 1e-3


@few
@given(seed=seeds, size=st.integers(1, 3000), data=st.data())
def test_permute_gives_the_same_image_one_at_a_time(seed, size, data):
    index = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=10))
    alone = [int(permute(seed, Stream.ORDER, 5, i, size)) for i in index]
    assert permute(seed, Stream.ORDER, 5, index, size).tolist() == alone


def test_permutations_differ_by_id_seed_and_stream():
    base = permute(0, Stream.ORDER, 0, np.arange(100), 100)
    for seed, stream, id in ((1, Stream.ORDER, 0), (0, Stream.DATA, 0), (0, Stream.ORDER, 1)):
        assert np.mean(permute(seed, stream, id, np.arange(100), 100) == base) < 0.1


@pytest.mark.parametrize("size", [7, 16, 50])
def test_every_index_lands_on_every_position_equally_often(size):
    images = np.stack([permute(11, Stream.ORDER, id, np.arange(size), size) for id in range(2_000)])
    for index in (0, 1, size - 1):
        assert stats.chisquare(np.bincount(images[:, index], minlength=size)).pvalue > 1e-3
    steps = (images[:, 1] - images[:, 0]) % size
    assert stats.chisquare(np.bincount(steps, minlength=size)[1:]).pvalue > 1e-3


@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, True, None, "0"])
def test_a_bad_seed_is_refused(seed):
    with pytest.raises(HeadstartError, match="seed="):
        words(seed, Stream.DATA, [0], 1)


@pytest.mark.parametrize("high", [0, -3, 2**32 + 1])
def test_a_bad_bound_is_refused(high):
    with pytest.raises(HeadstartError, match=f"high={high}"):
        integers(0, Stream.DATA, [0], 1, high)


@pytest.mark.parametrize(("index", "size"), [([0], 0), ([0], -1), ([0], 2**62), ([5], 5), ([-1], 5)])
def test_a_bad_permutation_is_refused(index, size):
    with pytest.raises(HeadstartError, match=f"size={size}"):
        permute(0, Stream.ORDER, 0, index, size)
