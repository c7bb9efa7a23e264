"""Eight float32 lanes as a value inside kernels.

LLVM's own vectoriser gives up on loops that gather rows of tables, because it cannot prove that the rows are distinct.
These operations emit portable vector instructions directly, in program order, on any target. Arrays are flat float32
and indices count elements.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import models, register_model

from headstart.engines.fused.compile import operation

LANES = 8
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_FLAGS = ("reassoc", "contract", "nsz")


class Lanes(types.Type):
    """Eight float32 numbers."""

    def __init__(self) -> None:
        super().__init__(name="Lanes8f")


LANES_TYPE = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _FLOATS)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _FLOATS.as_pointer())


def _splat(builder: Any, scalar: Any) -> Any:
    empty = ir.Constant(_FLOATS, ir.Undefined)
    one = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, empty, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@operation
def load(typingctx, array, index):
    """array[index : index + 8]."""

    def build(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature.args[0], *args), align=4)

    return LANES_TYPE(array, types.int64), build


@operation
def store(typingctx, array, index, value):
    """array[index : index + 8] = value."""

    def build(context, builder, signature, args):
        builder.store(args[2], _pointer(context, builder, signature.args[0], *args[:2]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, LANES_TYPE), build


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
            return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), LANES), order))

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
def spread(typingctx, array, index):
    """array[index] in every lane; index is not negative."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return _splat(builder, builder.load(builder.gep(data, [args[1]])))

    return LANES_TYPE(array, types.int64), build


@operation
def add(typingctx, a, b):
    """a + b."""

    def build(context, builder, signature, args):
        return builder.fadd(*args, flags=_FLAGS)

    return LANES_TYPE(LANES_TYPE, LANES_TYPE), build


@operation
def sub(typingctx, a, b):
    """a - b."""

    def build(context, builder, signature, args):
        return builder.fsub(*args, flags=_FLAGS)

    return LANES_TYPE(LANES_TYPE, LANES_TYPE), build


@operation
def mul(typingctx, a, b):
    """a b."""

    def build(context, builder, signature, args):
        return builder.fmul(*args, flags=_FLAGS)

    return LANES_TYPE(LANES_TYPE, LANES_TYPE), build


@operation
def fma(typingctx, a, b, c):
    """a b + c, fused where the machine can."""

    def build(context, builder, signature, args):
        kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
        return builder.call(function, args)

    return LANES_TYPE(LANES_TYPE, LANES_TYPE, LANES_TYPE), build


@operation
def larger(typingctx, a, b):
    """max(a, b); b where either is not a number."""

    def build(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return LANES_TYPE(LANES_TYPE, LANES_TYPE), build


@operation
def where_above(typingctx, a, b, value):
    """value where a > b, else 0."""

    def build(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", *args[:2]), args[2], ir.Constant(_FLOATS, [0.0] * LANES))

    return LANES_TYPE(LANES_TYPE, LANES_TYPE, LANES_TYPE), build


@operation
def total(typingctx, a):
    """The sum of the lanes, pairwise."""

    def build(context, builder, signature, args):
        value, half = args[0], LANES // 2
        while half:
            order = [(i + half) % LANES for i in range(LANES)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), order)
            value = builder.fadd(value, builder.shuffle_vector(value, value, mask), flags=_FLAGS)
            half //= 2
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return types.float32(LANES_TYPE), build
