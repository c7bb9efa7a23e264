"""The random streams of `headstart.core.streams` inside kernels: integers bit for bit, normals to 4 ulp of float32.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Eight samples go at a time, in
vector instructions: LLVM's cost model, blind to the widening multiplication, would keep Philox scalar.
"""

# mypy: disable-error-code="no-untyped-def,misc"
import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types

from headstart.core.kernels.compile import operation, part

DATA, ORDER, EVALUATION = 2, 3, 6
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_FEISTEL_ROUNDS = 8
_FIRST_PERMUTATION_ID = np.uint64(2**62)
_SAMPLES = 8
_LONGS = ir.VectorType(ir.IntType(64), _SAMPLES)
_INTEGERS = ir.VectorType(ir.IntType(32), _SAMPLES)
_FLOATS = ir.VectorType(ir.FloatType(), _SAMPLES)
_SQRT_HALF_BITS = 0x3F3504F3
_SIGN, _QUARTER, _EIGHTH = 0x80000000, 0x40000000, 0x20000000
# Chebyshev's fits on the ranges that are left after reduction, all below 2e-8: 2 artanh(s) = 2 s (1 + q log(q)) and
# sin x = x (1 + q sin(q)), cos x = 1 + q cos(q), with q = s^2 up to 1/9 or x^2 up to (pi / 4)^2.
_LOG = (0.3333331983287963, 0.20003835425927877, 0.14116978050260764, 0.13433774206780366)
_SIN = (-0.16666664665121989, 0.008332748634545861, -0.00019587949863766963)
_COS = (-0.49999999969155384, 0.04166665065503652, -0.0013887589610279926, 2.4463837427201415e-05)


class _Vector:
    """Eight lanes under construction. Operators build instructions; numbers are spread over the lanes."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def _build(self, name: str, other: Any) -> "_Vector":
        if not isinstance(other, _Vector):
            other = _Vector(self.builder, ir.Constant(self.value.type, [other] * _SAMPLES))
        return _Vector(self.builder, getattr(self.builder, name)(self.value, other.value))

    def _either(self, other: Any, whole: str, real: str) -> "_Vector":
        return self._build(real if self.value.type == _FLOATS else whole, other)

    def __add__(self, other: Any) -> "_Vector":
        return self._either(other, "add", "fadd")

    def __sub__(self, other: Any) -> "_Vector":
        return self._either(other, "sub", "fsub")

    def __mul__(self, other: Any) -> "_Vector":
        return self._either(other, "mul", "fmul")

    def __truediv__(self, other: Any) -> "_Vector":
        return self._build("fdiv", other)

    def __and__(self, other: Any) -> "_Vector":
        return self._build("and_", other)

    def __xor__(self, other: Any) -> "_Vector":
        return self._build("xor", other)

    def __rshift__(self, other: Any) -> "_Vector":
        return self._build("lshr", other)

    def __lshift__(self, other: Any) -> "_Vector":
        return self._build("shl", other)

    def halved(self, times: int) -> "_Vector":
        """Signed integers shifted down."""
        return self._build("ashr", times)

    def cast(self, how: str, kind: Any) -> "_Vector":
        """trunc, sitofp or bitcast."""
        return _Vector(self.builder, getattr(self.builder, how)(self.value, kind))

    def where_negative(self, yes: "_Vector", no: "_Vector") -> "_Vector":
        """yes where the sign bit of these integers is set, else no."""
        zero = ir.Constant(self.value.type, [0] * _SAMPLES)
        return _Vector(
            self.builder, self.builder.select(self.builder.icmp_signed("<", self.value, zero), yes.value, no.value)
        )

    def call(self, name: str, *others: "_Vector") -> "_Vector":
        """An intrinsic function of float lanes."""
        values = [self.value, *(other.value for other in others)]
        kind = ir.FunctionType(_FLOATS, [_FLOATS] * len(values))
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.v{_SAMPLES}f32")
        return _Vector(self.builder, self.builder.call(function, values))

    def times(self, factor: "_Vector", more: Any) -> "_Vector":
        """self factor + more, fused where the machine can."""
        if not isinstance(more, _Vector):
            more = _Vector(self.builder, ir.Constant(_FLOATS, [more] * _SAMPLES))
        return self.call("fmuladd", factor, more)

    def polynomial(self, coefficients: tuple[float, ...]) -> "_Vector":
        """The polynomial with these coefficients, the constant first."""
        value = _Vector(self.builder, ir.Constant(_FLOATS, [coefficients[-1]] * _SAMPLES))
        for coefficient in reversed(coefficients[:-1]):
            value = value.times(self, coefficient)
        return value


def _spread(builder: Any, value: Any) -> _Vector:
    """A 64-bit integer in every lane."""
    empty = ir.Constant(_LONGS, ir.Undefined)
    one = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
    return _Vector(builder, builder.shuffle_vector(one, empty, ir.Constant(_INTEGERS, [0] * _SAMPLES)))


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any, vector: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _philox(builder: Any, id: _Vector, lane: Any, seed: Any, stream: Any) -> list[_Vector]:
    """The four words of eight samples, in 64-bit lanes with rubbish above 32 bits."""
    counter = _spread(builder, lane)
    c0, c1, c2, c3 = id, id >> 32, counter, counter >> 32
    for i in range(10):
        k0 = _spread(builder, builder.add(seed, ir.Constant(ir.IntType(64), i * int(_W0))))
        k1 = _spread(builder, builder.add(stream, ir.Constant(ir.IntType(64), i * int(_W1))))
        p0, p1 = (c0 & int(_LOW)) * int(_M0), (c2 & int(_LOW)) * int(_M1)
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1, (p0 >> 32) ^ c3 ^ k1, p0
    return [c0, c1, c2, c3]


def _radius(word: _Vector) -> _Vector:
    """sqrt(-2 log u), u = (word + 1/2) / 2^32, of 32-bit words.

    u below 1/2 is m 2^e with m in [sqrt(1/2), sqrt(2)), f = m - 1; u above is 1 + f with f exact, so that it loses
    nothing near 1. Then log u = e log 2 + 2 artanh(f / (2 + f)).
    """
    v = ((word ^ word.halved(31)).cast("sitofp", _FLOATS) + 0.5) * 2.0**-32
    bits = v.cast("bitcast", _INTEGERS)
    exponent = (bits - _SQRT_HALF_BITS).halved(23)
    f = word.where_negative(v * -1.0, (bits - (exponent << 23)).cast("bitcast", _FLOATS) - 1.0)
    e = word.where_negative(exponent ^ exponent, exponent).cast("sitofp", _FLOATS)
    s = f / (f + 2.0)
    q = s * s
    artanh = (s * q).times(q.polynomial(_LOG), s)
    return e.times(_constant(word, -2.0 * math.log(2.0)), artanh * -4.0).call("sqrt")


def _turn(word: _Vector) -> tuple[_Vector, _Vector]:
    """(cos, sin) of 2 pi (word + 1/2) / 2^32, reduced exactly to an eighth of a turn in integers."""
    quadrant = word + _EIGHTH
    x = ((word - (quadrant & (_SIGN | _QUARTER))).cast("sitofp", _FLOATS) + 0.5) * (2.0 * math.pi * 2.0**-32)
    q = x * x
    sin, cos = (x * q).times(q.polynomial(_SIN), x), q.times(q.polynomial(_COS), 1.0)
    odd = quadrant << 1
    signs = (quadrant + _QUARTER) & _SIGN, quadrant & _SIGN
    c, s = (
        (value.cast("bitcast", _INTEGERS) ^ sign).cast("bitcast", _FLOATS)
        for value, sign in zip((odd.where_negative(sin, cos), odd.where_negative(cos, sin)), signs, strict=True)
    )
    return c, s


def _constant(like: _Vector, value: float) -> _Vector:
    return _Vector(like.builder, ir.Constant(_FLOATS, [value] * _SAMPLES))


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
    """words[c * stride + n + i] = word c of sample ids[n + i], for eight samples i at once."""

    def build(context, builder, signature, args):
        ids, n, lane, seed, stream, words, stride = args
        id = _Vector(builder, builder.load(_pointer(context, builder, signature.args[0], ids, n, _LONGS), align=8))
        for c, word in enumerate(_philox(builder, id, lane, seed, stream)):
            index = builder.add(n, builder.mul(stride, ir.Constant(ir.IntType(64), c)))
            pointer = _pointer(context, builder, signature.args[5], words, index, _LONGS)
            builder.store((word & int(_LOW)).value, pointer, align=8)
        return context.get_dummy_value()

    i64, u64 = types.int64, types.uint64
    return types.void(ids, i64, u64, u64, u64, words, i64), build


@operation
def normals_block(typingctx, ids, n, lane, seed, stream, out, stride):
    """out[(4 lane + c) stride + n + i] = normal 4 lane + c of sample ids[n + i], for eight samples i at once."""

    def build(context, builder, signature, args):
        ids, n, lane, seed, stream, out, stride = args
        id = _Vector(builder, builder.load(_pointer(context, builder, signature.args[0], ids, n, _LONGS), align=8))
        words = [word.cast("trunc", _INTEGERS) for word in _philox(builder, id, lane, seed, stream)]
        row = builder.mul(lane, ir.Constant(ir.IntType(64), 4))
        for pair in range(2):
            radius = _radius(words[2 * pair])
            for c, along in enumerate(_turn(words[2 * pair + 1])):
                number = builder.add(row, ir.Constant(ir.IntType(64), 2 * pair + c))
                index = builder.add(n, builder.mul(stride, number))
                pointer = _pointer(context, builder, signature.args[5], out, index, _FLOATS)
                builder.store((radius * along).value, pointer, align=4)
        return context.get_dummy_value()

    i64, u64 = types.int64, types.uint64
    return types.void(ids, i64, u64, u64, u64, out, i64), build


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


@part
def normals(seed: Any, stream: Any, ids: Any, num: Any, dim: Any, out: Any, stride: Any) -> None:
    """Standard normals by Box-Muller: out[i * stride + n] is coordinate i of sample ids[n].

    ids holds a multiple of 8, and so does a row of out; rows up to a multiple of 4 are written.
    """
    for lane in range((dim + 3) // 4):
        for n in range(0, num, 8):
            normals_block(ids, n, np.uint64(lane), seed, stream, out, stride)
