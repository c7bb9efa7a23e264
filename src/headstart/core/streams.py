"""Named random streams: every random number is a pure function of (seed, stream, id, lane).

A stream is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) with
key = (seed, stream) and counter = (id, lane), both 64-bit, low word first. A sample therefore is the same numbers
whether one run or a thousand are trained, in any order, on any engine. This NumPy code is the specification; faster
versions must match its integers bit for bit. There is no global generator anywhere in Headstart.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.errors import HeadstartError

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_FEISTEL_ROUNDS = 8

Words = NDArray[np.uint32]


class Stream(IntEnum):
    """What the numbers are for. Two streams of one seed are independent."""

    TASK = 0
    INIT = 1
    DATA = 2
    ORDER = 3
    LABELS = 4
    NOISE = 5
    EVALUATION = 6


def check_seed(seed: int) -> None:
    """Raise unless `seed` is in [0, 2^32)."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise HeadstartError(f"seed={seed!r}: a seed is a whole number in [0, 2^32)")


def philox(counter: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike], key: tuple[int, int]) -> tuple[Words, ...]:
    """Ten rounds of Philox4x32 on arrays of counters. Returns four uint32 arrays of the broadcast shape."""
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in counter)
    k0, k1 = key
    for _ in range(10):
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> _SHIFT) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return tuple(c.astype(np.uint32) for c in np.broadcast_arrays(c0, c1, c2, c3))


def words(seed: int, stream: Stream, ids: ArrayLike, num: int, first: int = 0) -> Words:
    """`num` random 32-bit words for each id, from word `first` on: uint32[len(ids), num].

    Word j is word j % 4 of lane j // 4.
    """
    check_seed(seed)
    ids = np.atleast_1d(np.asarray(ids, dtype=np.uint64))[:, None]
    lanes = np.arange(first // 4, (first + num + 3) // 4, dtype=np.uint64)[None, :]
    block = philox((ids & _LOW, ids >> _SHIFT, lanes & _LOW, lanes >> _SHIFT), (int(seed), int(stream)))
    return np.stack(block, axis=-1).reshape(len(ids), 4 * lanes.size)[:, first % 4 : first % 4 + num]


def signs(seed: int, stream: Stream, ids: ArrayLike, num: int) -> NDArray[np.float32]:
    """`num` fair signs for each id: float32[len(ids), num]. Entry i is -1 where bit i % 32 of word i // 32 is set."""
    w = np.ascontiguousarray(words(seed, stream, ids, (num + 31) // 32)).astype("<u4")
    bits = np.unpackbits(w.view(np.uint8), axis=1, count=num, bitorder="little")
    return np.float32(1) - np.float32(2) * bits.astype(np.float32)


def uniforms(seed: int, stream: Stream, ids: ArrayLike, num: int, first: int = 0) -> NDArray[np.float64]:
    """`num` uniforms in (0, 1) for each id, from number `first` on: float64[len(ids), num], (word + 1/2) / 2^32."""
    return (words(seed, stream, ids, num, first).astype(np.float64) + 0.5) * 2.0**-32


def normals(seed: int, stream: Stream, ids: ArrayLike, num: int, first: int = 0) -> NDArray[np.float32]:
    """`num` standard normals for each id, from number `first` on: float32[len(ids), num].

    By Box-Muller on pairs of words, in float64.
    """
    before, after = first % 2, (first + num) % 2
    u = uniforms(seed, stream, ids, before + num + after, first - before)
    radius, angle = np.sqrt(-2.0 * np.log(u[:, 0::2])), 2.0 * np.pi * u[:, 1::2]
    z = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
    return z.reshape(u.shape)[:, before : before + num].astype(np.float32)


def integers(seed: int, stream: Stream, ids: ArrayLike, num: int, high: int) -> NDArray[np.int64]:
    """`num` integers uniform on [0, high) for each id, high <= 2^32: int64[len(ids), num], (word * high) >> 32."""
    if not 1 <= high <= 2**32:
        raise HeadstartError(f"integers(high={high!r}): high is in [1, 2^32]")
    return ((words(seed, stream, ids, num).astype(np.uint64) * np.uint64(high)) >> _SHIFT).astype(np.int64)


def permute(seed: int, stream: Stream, id: ArrayLike, index: ArrayLike, size: int) -> NDArray[np.int64]:
    """The image of each `index` under the permutation of [0, size) that (seed, stream, id) names. Holds no list.

    `id` is one number or broadcasts with `index`. A Feistel network on the smallest even number of bits that covers
    `size` (at least four), with round keys from the stream, and cycle walking back into the range (Black and Rogaway,
    "Ciphers with arbitrary finite domains", 2002).
    """
    index = np.asarray(index, dtype=np.int64)
    if not 1 <= size < 2**62 or (index.size and not (index.min() >= 0 and index.max() < size)):
        raise HeadstartError(f"permute(size={size!r}): indices must lie in [0, size), 1 <= size < 2^62")
    half = max(2, ((size - 1).bit_length() + 1) // 2)
    keys = _round_keys(seed, stream, np.asarray(id, dtype=np.uint64), index.shape)
    value = _feistel(index.ravel().astype(np.uint64), keys, half)
    outside = np.flatnonzero(value >= np.uint64(size))
    while outside.size:
        walked = _feistel(value[outside], keys if keys.shape[1] == 1 else np.take(keys, outside, axis=1), half)
        value[outside] = walked
        outside = outside[walked >= np.uint64(size)]
    return value.astype(np.int64).reshape(index.shape)


def _round_keys(seed: int, stream: Stream, ids: NDArray[np.uint64], shape: tuple[int, ...]) -> Words:
    """The keys of each round for ids that broadcast to `shape`: uint32[rounds, n], or [rounds, 1] for one id."""
    if not ids.size:
        return np.empty((_FEISTEL_ROUNDS, 1), dtype=np.uint32)
    low, high = int(ids.min()), int(ids.max())
    if low == high:
        return words(seed, stream, [low], _FEISTEL_ROUNDS).T
    if high - low <= ids.size:  # epochs come as a range, which needs no sorting
        which: NDArray[np.intp] = (ids - np.uint64(low)).astype(np.intp)
        different = np.uint64(low) + np.arange(high - low + 1, dtype=np.uint64)
    else:
        different, which = np.unique(ids, return_inverse=True)
    each = np.broadcast_to(which.reshape(ids.shape), shape).ravel()
    # `take` along rows that lie together is twice as fast as indexing.
    return np.take(np.ascontiguousarray(words(seed, stream, different, _FEISTEL_ROUNDS).T), each, axis=1)


def _feistel(value: NDArray[np.uint64], keys: Words, half: int) -> NDArray[np.uint64]:
    """The network on 2 * half bits, uint64[n], with round keys uint32[rounds, n or 1].

    Halves have at most 31 bits, so 32-bit words hold them: half the memory traffic of 64-bit ones.
    """
    mask = np.uint32((1 << half) - 1)
    left = (value >> np.uint64(half)).astype(np.uint32)
    right = (value & np.uint64(mask)).astype(np.uint32)
    mixed, scratch = np.empty_like(left), np.empty_like(left)
    for key in keys:
        np.bitwise_xor(right, key, out=mixed)
        _mix(mixed, scratch)
        mixed &= mask
        left ^= mixed
        left, right = right, left
    return (left.astype(np.uint64) << np.uint64(half)) | right


def _mix(x: Words, scratch: Words) -> None:
    """A 32-bit avalanche (the finaliser of MurmurHash3), in place; `scratch` is of the same shape."""
    x ^= np.right_shift(x, np.uint32(16), out=scratch)
    x *= np.uint32(0x85EBCA6B)
    x ^= np.right_shift(x, np.uint32(13), out=scratch)
    x *= np.uint32(0xC2B2AE35)
    x ^= np.right_shift(x, np.uint32(16), out=scratch)
