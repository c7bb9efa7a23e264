"""The random streams of `headstart.core.streams` inside kernels: integers bit for bit, normals to 2 ulp of float32.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Words are held in 64-bit lanes, so
that LLVM maps each round to two widening multiplications; loops run over samples, which vectorise.
"""

# mypy: disable-error-code="no-untyped-def,misc"
import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types

from headstart.engines.fused.compile import exact, operation, part

DATA, ORDER, EVALUATION = 2, 3, 6
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_FEISTEL_ROUNDS = 8
_FIRST_PERMUTATION_ID = np.uint64(2**62)
_LN2 = math.log(2.0)
_MANTISSA_BITS, _SQRT_HALF_BITS = np.uint64(52), np.uint64(0x3FE6A09E667F3BCD)
_EXPONENT_BIAS = np.uint64(64 << 52)
# An integer below 2^52 added to the bits of 2^52 makes a float64 larger by it: AVX2 has no such conversion.
_INTEGER, _INTEGER_BITS = 2.0**52, np.uint64(0x4330000000000000)
# The same for signed ones.
_MAGIC, _MAGIC_BITS = 2.0**52 + 2.0**51, np.uint64(0x4338000000000000)
_SIGN = np.uint64(1 << 63)
_ANGLE = 2.0 * math.pi * 2.0**-32


@operation
def float64_bits(typingctx, value):
    """The bits of a float64 as uint64."""

    def build(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.uint64))

    return types.uint64(types.float64), build


@operation
def float64_from_bits(typingctx, value):
    """The float64 with these bits."""

    def build(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.uint64), build


@part
def _round(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """One round. Words may carry rubbish above 32 bits, which no product sees."""
    p0, p1 = _M0 * (c0 & _LOW), _M1 * (c2 & _LOW)
    return (p1 >> _SHIFT) ^ c1 ^ k0, p1, (p0 >> _SHIFT) ^ c3 ^ k1, p0


@part
def philox(id: Any, lane: Any, k0: Any, k1: Any) -> Any:
    """The four words of (seed, stream, id, lane), each a uint64 below 2^32. Unrolled, so that callers vectorise."""
    c0, c1, c2, c3 = id & _LOW, id >> _SHIFT, lane & _LOW, lane >> _SHIFT
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, (k0 + np.uint64(1) * _W0) & _LOW, (k1 + np.uint64(1) * _W1) & _LOW)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, (k0 + np.uint64(2) * _W0) & _LOW, (k1 + np.uint64(2) * _W1) & _LOW)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, (k0 + np.uint64(3) * _W0) & _LOW, (k1 + np.uint64(3) * _W1) & _LOW)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, (k0 + np.uint64(4) * _W0) & _LOW, (k1 + np.uint64(4) * _W1) & _LOW)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, (k0 + np.uint64(5) * _W0) & _LOW, (k1 + np.uint64(5) * _W1) & _LOW)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, (k0 + np.uint64(6) * _W0) & _LOW, (k1 + np.uint64(6) * _W1) & _LOW)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, (k0 + np.uint64(7) * _W0) & _LOW, (k1 + np.uint64(7) * _W1) & _LOW)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, (k0 + np.uint64(8) * _W0) & _LOW, (k1 + np.uint64(8) * _W1) & _LOW)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, (k0 + np.uint64(9) * _W0) & _LOW, (k1 + np.uint64(9) * _W1) & _LOW)
    return c0 & _LOW, c1 & _LOW, c2 & _LOW, c3 & _LOW


@operation
def philox_block(typingctx, ids, n, lane, seed, stream, words, stride):
    """words[c * stride + n + i] = word c of sample ids[n + i], for eight samples i at once.

    Written in vector instructions because LLVM's cost model, blind to the widening multiplication, keeps it scalar.
    """
    lanes = ir.VectorType(ir.IntType(64), 8)

    def build(context, builder, signature, args):
        ids, n, lane, seed, stream, words, stride = args

        def splat(value: Any) -> Any:
            empty = ir.Constant(lanes, ir.Undefined)
            one = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(one, empty, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))

        def constant(value: Any) -> Any:
            return ir.Constant(lanes, [int(value)] * 8)

        def pointer(kind: Any, array: Any, index: Any) -> Any:
            data = context.make_array(kind)(context, builder, array).data
            return builder.bitcast(builder.gep(data, [index]), lanes.as_pointer())

        low, shift = constant(_LOW), constant(32)
        id, lane = builder.load(pointer(signature.args[0], ids, n), align=8), splat(lane)
        c0, c1, c2, c3 = id, builder.lshr(id, shift), lane, builder.lshr(lane, shift)
        for i in range(10):
            k0 = splat(builder.add(seed, ir.Constant(ir.IntType(64), i * int(_W0))))
            k1 = splat(builder.add(stream, ir.Constant(ir.IntType(64), i * int(_W1))))
            p0 = builder.mul(constant(_M0), builder.and_(c0, low))
            p1 = builder.mul(constant(_M1), builder.and_(c2, low))
            c0, c2 = (
                builder.xor(builder.xor(builder.lshr(p1, shift), c1), k0),
                builder.xor(builder.xor(builder.lshr(p0, shift), c3), k1),
            )
            c1, c3 = p1, p0
        for c, word in enumerate((c0, c1, c2, c3)):
            index = builder.add(n, builder.mul(stride, ir.Constant(ir.IntType(64), c)))
            builder.store(builder.and_(word, low), pointer(signature.args[5], words, index), align=8)
        return context.get_dummy_value()

    i64, u64 = types.int64, types.uint64
    return types.void(ids, i64, u64, u64, u64, words, i64), build


@part
def packed_signs(seed: Any, stream: Any, ids: Any, num: Any, dim: Any, words: Any, out: Any) -> None:
    """Bit i of out[n] is set where coordinate i of sample ids[n] is -1, dim <= 64: uint64[num].

    ids, int64, and out hold a multiple of 8; `words` is scratch, uint64[4 x that multiple].
    """
    mask = (np.uint64(1) << np.uint64(dim)) - np.uint64(1) if dim < 64 else ~np.uint64(0)
    stride = (num + 7) // 8 * 8
    for n in range(0, num, 8):
        philox_block(ids, n, np.uint64(0), seed, stream, words, stride)
    for n in range(num):
        out[n] = (words[n] | (words[stride + n] << _SHIFT)) & mask


@part
def integers(seed: Any, step: Any, num: Any, size: Any, first: Any, out: Any) -> None:
    """first + integers on [0, size) from id `step` of the order stream: int64[num]."""
    high = np.uint64(size)
    for lane in range((num + 3) // 4):
        w = philox(np.uint64(step), np.uint64(lane), seed, np.uint64(ORDER))
        for c in range(min(4, num - 4 * lane)):
            out[4 * lane + c] = first + np.int64((w[c] * high) >> _SHIFT)


@part
def _mix(x: Any) -> Any:
    x = (x ^ (x >> _SHIFT)) & _LOW
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & _LOW
    x = ((x ^ (x >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & _LOW
    return x ^ (x >> np.uint64(16))


@part
def _feistel(value: Any, half: Any, keys: Any) -> Any:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = value >> half, value & mask
    for i in range(_FEISTEL_ROUNDS):
        left, right = right, left ^ (_mix(right ^ keys[i]) & mask)
    return (left << half) | right


@part
def permuted(seed: Any, leg: Any, position: Any, num: Any, size: Any, first: Any, keys: Any, out: Any) -> None:
    """first + the images of positions position .. position + num - 1, a new permutation every `size`: int64[num]."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    half = np.uint64(max(2, (bits + 1) // 2))
    done = 0
    while done < num:
        epoch = (position + done) // size
        start = (position + done) % size
        count = min(num - done, size - start)
        id = _FIRST_PERMUTATION_ID + (np.uint64(leg) << np.uint64(40)) + np.uint64(epoch)
        for lane in range(_FEISTEL_ROUNDS // 4):
            w = philox(id, np.uint64(lane), seed, np.uint64(ORDER))
            for c in range(4):
                keys[4 * lane + c] = w[c]
        for n in range(count):
            out[done + n] = np.int64(_feistel(np.uint64(start + n), half, keys))
        for n in range(done, done + count):
            while out[n] >= size:
                out[n] = np.int64(_feistel(np.uint64(out[n]), half, keys))
            out[n] += first
        done += count


@exact
def _radius(word: Any) -> Any:
    """sqrt(-2 log u), u = (word + 1/2) / 2^32, as float32: the logarithm by 2 artanh(f / (2 + f)) in float64."""
    bits = float64_bits(float64_from_bits(word + _INTEGER_BITS) - (_INTEGER - 0.5))
    # The exponent that leaves the mantissa in [sqrt(1/2), sqrt(2)), so that u near 1 loses nothing; 64 too large.
    exponent = (bits + _EXPONENT_BIAS - _SQRT_HALF_BITS) >> _MANTISSA_BITS
    f = float64_from_bits(bits + _EXPONENT_BIAS - (exponent << _MANTISSA_BITS)) - 1.0
    s = f / (2.0 + f)
    q = s * s
    # Chebyshev's fit to 1/3 + q/5 + q^2/7 + ..., to 3e-9 of the logarithm.
    series = 0.3333334257622926 + q * (0.19994374871758014 + q * 0.14790499053130182)
    log = (float64_from_bits(exponent + _INTEGER_BITS) - (_INTEGER + 96.0)) * _LN2 + 2.0 * (s + s * q * series)
    return np.sqrt(np.float32(-2.0 * log))


@exact
def _turn(word: Any) -> Any:
    """(cos, sin) of 2 pi (word + 1/2) / 2^32 as float32: reduced exactly to an eighth of a turn in integers."""
    # Bits 30 and 31 are the quadrant; those above are rubbish.
    quadrant = word + np.uint64(0x20000000)
    x = float64_from_bits(word - (quadrant & np.uint64(0x1C0000000)) + _MAGIC_BITS) - _MAGIC
    x = x * _ANGLE + 0.5 * _ANGLE
    q = x * x
    sin = x + x * q * (-1 / 6 + q * (1 / 120 + q * (-1 / 5040 + q * (1 / 362880))))
    # Chebyshev's fit to cos, to 2e-10.
    cos = 0.04166665065502966 + q * (-0.0013887589609847628 + q * 2.446383736753432e-05)
    cos = 1.0 + q * (-0.4999999996915539 + q * cos)
    odd = np.int64(quadrant << np.uint64(33)) < 0
    c, s = (sin if odd else cos), (cos if odd else sin)
    sin_sign = (quadrant << np.uint64(32)) & _SIGN
    cos_sign = ((quadrant + np.uint64(1 << 30)) << np.uint64(32)) & _SIGN
    return np.float32(float64_from_bits(float64_bits(c) ^ cos_sign)), np.float32(
        float64_from_bits(float64_bits(s) ^ sin_sign)
    )


@exact
def _pair_of_normals(first: Any, second: Any, cosines: Any, sines: Any) -> None:
    """Box-Muller on arrays of words. Two loops, as the constants of both are more than there are registers."""
    for n in range(len(cosines)):
        cosines[n] = _radius(first[n])
    for n in range(len(cosines)):
        c, s = _turn(second[n])
        radius = cosines[n]
        cosines[n] = radius * c
        sines[n] = radius * s


@part
def normals(seed: Any, stream: Any, ids: Any, num: Any, dim: Any, words: Any, out: Any, stride: Any) -> None:
    """Standard normals by Box-Muller: out[i * stride + n] is coordinate i of sample ids[n].

    ids holds a multiple of 8; `words` is scratch, uint64[4 x that]. An odd dim writes one row more.
    """
    padded = (num + 7) // 8 * 8
    for lane in range((dim + 3) // 4):
        for n in range(0, num, 8):
            philox_block(ids, n, np.uint64(lane), seed, stream, words, padded)
        for pair in range(2):
            row = 4 * lane + 2 * pair
            if row < dim:
                _pair_of_normals(
                    words[2 * pair * padded : 2 * pair * padded + num],
                    words[(2 * pair + 1) * padded : (2 * pair + 1) * padded + num],
                    out[row * stride : row * stride + num],
                    out[(row + 1) * stride : (row + 1) * stride + num],
                )
