"""Vectors of float32 lanes as values inside kernels: eight unless said otherwise, or as many as another vector has.

LLVM's own vectoriser gives up on loops that gather rows of tables, because it cannot prove that the rows are distinct.
These operations emit portable vector instructions directly, in program order, on any target: LLVM splits a vector of 64
into as many registers as the machine needs. Arrays are flat float32 and indices count elements.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import models, register_model

from headstart.core.kernels.compile import operation
from headstart.engines.fused.losses import EXP, LN2_HIGH, LN2_LOW, LOG2E

LANES = 8
_FLAGS = ("reassoc", "contract", "nsz")


class Lanes(types.Type):
    """So many float32 numbers."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(name=f"Lanes{count}f")


LANES_TYPE = Lanes(LANES)


def _floats(count: int) -> Any:
    return ir.VectorType(ir.FloatType(), count)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _floats(kind.count))


def _order(indices: Any) -> Any:
    indices = list(indices)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(indices)), indices)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any, count: int = LANES) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _floats(count).as_pointer())


def _splat(builder: Any, scalar: Any, count: int = LANES) -> Any:
    empty = ir.Constant(_floats(count), ir.Undefined)
    one = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, empty, _order([0] * count))


@operation
def load(typingctx, array, index):
    """array[index : index + 8]."""

    def build(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature.args[0], *args), align=4)

    return LANES_TYPE(array, types.int64), build


@operation
def load_like(typingctx, like, array, index):
    """array[index :], as many lanes as `like` has."""

    def build(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature.args[1], *args[1:], count=like.count), align=4)

    return like(like, array, types.int64), build


@operation
def store(typingctx, array, index, value):
    """array[index :] = value."""

    def build(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], *args[:2], count=value.count)
        builder.store(args[2], pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), build


@operation
def lanes(typingctx, value):
    """The number of lanes."""

    def build(context, builder, signature, args):
        return ir.Constant(ir.IntType(64), value.count)

    return types.int64(value), build


@operation
def transpose_tile(typingctx, source, at, stride, target, to, target_stride):
    """target[j, i] = source[i, j] for i, j < 8, at these elements and row strides: three rounds of perfect shuffles."""

    def build(context, builder, signature, args):
        source, at, stride, target, to, target_stride = args
        kinds = signature.args

        def row(kind: Any, array: Any, start: Any, step: Any, i: int) -> Any:
            index = builder.add(start, builder.mul(step, ir.Constant(ir.IntType(64), i)))
            return _pointer(context, builder, kind, array, index)

        def interleave(one: Any, other: Any, first: int) -> Any:
            order = [first + i // 2 + LANES * (i % 2) for i in range(LANES)]
            return builder.shuffle_vector(one, other, _order(order))

        rows = [builder.load(row(kinds[0], source, at, stride, i), align=4) for i in range(LANES)]
        for _ in range(3):
            half = LANES // 2
            rows = [interleave(rows[i // 2], rows[i // 2 + half], half * (i % 2)) for i in range(LANES)]
        for i, value in enumerate(rows):
            builder.store(value, row(kinds[3], target, to, target_stride, i), align=4)
        return context.get_dummy_value()

    i64 = types.int64
    return types.void(source, i64, i64, target, i64, i64), build


@operation
def splat(typingctx, scalar):
    """The same number in every lane."""

    def build(context, builder, signature, args):
        return _splat(builder, args[0])

    return LANES_TYPE(types.float32), build


@operation
def zeros(typingctx, count):
    """A vector of `count` zeros; count is a literal."""
    if not isinstance(count, types.Literal):
        return None  # numba asks again with the literal
    kind = Lanes(count.literal_value)

    def build(context, builder, signature, args):
        return ir.Constant(_floats(kind.count), [0.0] * kind.count)

    return kind(count), build


@operation
def spread(typingctx, array, index):
    """array[index] in every lane; index is not negative."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return _splat(builder, builder.load(builder.gep(data, [args[1]])))

    return LANES_TYPE(array, types.int64), build


@operation
def spread_like(typingctx, like, array, index):
    """array[index] in as many lanes as `like` has; index is not negative."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[1])(context, builder, args[1]).data
        return _splat(builder, builder.load(builder.gep(data, [args[2]])), like.count)

    return like(like, array, types.int64), build


@operation
def add(typingctx, a, b):
    """a + b."""

    def build(context, builder, signature, args):
        return builder.fadd(*args, flags=_FLAGS)

    return a(a, b), build


@operation
def sub(typingctx, a, b):
    """a - b."""

    def build(context, builder, signature, args):
        return builder.fsub(*args, flags=_FLAGS)

    return a(a, b), build


@operation
def mul(typingctx, a, b):
    """a b."""

    def build(context, builder, signature, args):
        return builder.fmul(*args, flags=_FLAGS)

    return a(a, b), build


@operation
def fma(typingctx, a, b, c):
    """a b + c, fused where the machine can."""

    def build(context, builder, signature, args):
        kind = ir.FunctionType(_floats(a.count), [_floats(a.count)] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{a.count}f32")
        return builder.call(function, args)

    return a(a, b, c), build


@operation
def larger(typingctx, a, b):
    """max(a, b); b where either is not a number."""

    def build(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), build


@operation
def where_above(typingctx, a, b, value):
    """value where a > b, else 0."""

    def build(context, builder, signature, args):
        nothing = ir.Constant(_floats(a.count), [0.0] * a.count)
        return builder.select(builder.fcmp_ordered(">", *args[:2]), args[2], nothing)

    return a(a, b, value), build


@operation
def where_positive(typingctx, a, value):
    """value where a > 0, else 0."""

    def build(context, builder, signature, args):
        nothing = ir.Constant(_floats(a.count), [0.0] * a.count)
        return builder.select(builder.fcmp_ordered(">", args[0], nothing), args[1], nothing)

    return a(a, value), build


def _reduced(builder: Any, value: Any, count: int, combine: Any) -> Any:
    """All lanes in one: eight after eight, then halves of eight."""
    parts = [builder.shuffle_vector(value, value, _order(range(i, i + LANES))) for i in range(0, count, LANES)]
    value, *rest = parts
    for part in rest:
        value = combine(value, part)
    half = LANES // 2
    while half:
        value = combine(value, builder.shuffle_vector(value, value, _order((i + half) % LANES for i in range(LANES))))
        half //= 2
    return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))


@operation
def total(typingctx, a):
    """The sum of the lanes, pairwise; whole eights."""

    def build(context, builder, signature, args):
        return _reduced(builder, args[0], a.count, lambda x, y: builder.fadd(x, y, flags=_FLAGS))

    return types.float32(a), build


@operation
def largest(typingctx, a):
    """The largest of the lanes, whole eights; lanes that are not numbers may be passed over."""

    def build(context, builder, signature, args):
        def larger_of(x: Any, y: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", x, y), x, y)

        return _reduced(builder, args[0], a.count, larger_of)

    return types.float32(a), build


@operation
def store_positive(typingctx, bits, index, a):
    """Bits of uint8 bits[index :], one a lane: whether it is positive, or not a number."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        kind = ir.IntType(a.count)
        pointer = builder.bitcast(builder.gep(data, [args[1]]), kind.as_pointer())
        mask = builder.fcmp_unordered(">", args[2], ir.Constant(_floats(a.count), [0.0] * a.count))
        builder.store(builder.bitcast(mask, kind), pointer, align=1)
        return context.get_dummy_value()

    return types.void(bits, types.int64, a), build


@operation
def where_bits(typingctx, value, bits, index):
    """value where the bit of its lane in uint8 bits[index :] is set, else 0."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[1])(context, builder, args[1]).data
        pointer = builder.bitcast(builder.gep(data, [args[2]]), ir.IntType(value.count).as_pointer())
        mask = builder.bitcast(builder.load(pointer, align=1), ir.VectorType(ir.IntType(1), value.count))
        return builder.select(mask, args[0], ir.Constant(_floats(value.count), [0.0] * value.count))

    return value(value, bits, types.int64), build


@operation
def add_scaled(typingctx, array, index, factor, value):
    """array[index :] += factor value, eight lanes after eight: stores that go along a row leave the core faster."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        kind = ir.FunctionType(_floats(LANES), [_floats(LANES)] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
        splat = _splat(builder, args[2])
        for first in range(0, value.count, LANES):
            at = builder.gep(data, [builder.add(args[1], ir.Constant(ir.IntType(64), first))])
            pointer = builder.bitcast(at, _floats(LANES).as_pointer())
            part = builder.shuffle_vector(args[3], args[3], _order(range(first, first + LANES)))
            builder.store(builder.call(function, [splat, part, builder.load(pointer, align=4)]), pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.float32, value), build


@operation
def splat_like(typingctx, like, scalar):
    """The same number in as many lanes as `like` has."""

    def build(context, builder, signature, args):
        return _splat(builder, args[1], like.count)

    return like(like, types.float32), build


@operation
def exp(typingctx, a):
    """e^a for a <= 0, within 2 ulp; below -87 it is e^-87, and what is not a number stays so."""

    def build(context, builder, signature, args):
        count = a.count
        integers = ir.VectorType(ir.IntType(32), count)

        def same(value: Any) -> Any:
            return ir.Constant(_floats(count), [float(value)] * count)

        def fused(x: Any, y: Any, z: Any) -> Any:
            kind = ir.FunctionType(_floats(count), [_floats(count)] * 3)
            function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{count}f32")
            return builder.call(function, [x, y, z])

        least = same(-87.0)
        x = builder.select(builder.fcmp_ordered(">", least, args[0]), least, args[0])
        kind = ir.FunctionType(_floats(count), [_floats(count)])
        floor = cgutils.get_or_insert_function(builder.module, kind, f"llvm.floor.v{count}f32")
        n = builder.call(floor, [fused(x, same(LOG2E), same(0.5))])
        r = fused(n, same(-LN2_LOW), fused(n, same(-LN2_HIGH), x))
        y = same(EXP[0])
        for coefficient in EXP[1:]:
            y = fused(y, r, same(coefficient))
        y = builder.fadd(fused(y, builder.fmul(r, r), r), same(1.0))
        exponent = builder.add(builder.fptosi(n, integers), ir.Constant(integers, [127] * count))
        power = builder.bitcast(builder.shl(exponent, ir.Constant(integers, [23] * count)), _floats(count))
        return builder.fmul(y, power)

    return a(a), build
