"""Products of float32 matrices with any strides, member by member: tiles of six rows and up to four vectors.

    out[m] = a[m] b[m],    a [members, rows, depth], b [members, depth, columns]

A tile keeps its 24 sums in registers while it goes along the depth. The columns of b are packed into panels that it
reads in order; the rows of a are read where they lie, or packed where they are strided. Members never mix, and how a
product is cut depends on its own shape alone.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types

from headstart.core.kernels.compile import kernel, operation, part
from headstart.engines.fused.simd import add, load, store, transpose_tile

ROWS, LANES, MOST = 6, 16, 4
# A panel of b, so deep and four vectors wide, stays in the second cache with all others of a product of 256 columns.
DEPTH = 512


@operation
def _vectors(typingctx, vectors, a, a_at, row, step, b, b_at, depth, out, out_at, out_row, more):
    """out[i, :] (+)= sum_k a[a_at + i row + k step] b[b_at + k width : + width], width = 16 vectors, six rows."""
    if not isinstance(vectors, types.Literal):
        return None  # numba asks again with the literal
    count = vectors.literal_value

    def build(context, builder, signature, args):
        floats = ir.VectorType(ir.FloatType(), LANES)
        i64, i32 = ir.IntType(64), ir.IntType(32)
        _, a, a_at, row, step, b, b_at, depth, out, out_at, out_row, more = args
        kinds = signature.args
        a_data, b_data, out_data = (
            context.make_array(kinds[i])(context, builder, array).data for i, array in ((1, a), (5, b), (8, out))
        )
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(floats, [floats] * 3), f"llvm.fmuladd.v{LANES}f32"
        )
        nothing = ir.Constant(floats, [0.0] * LANES)
        sums = [[cgutils.alloca_once_value(builder, nothing) for _ in range(count)] for _ in range(ROWS)]
        rows = [builder.add(a_at, builder.mul(row, ir.Constant(i64, i))) for i in range(ROWS)]
        zero = ir.Constant(i32, 0)
        with cgutils.for_range(builder, depth) as loop:
            k = loop.index
            b_from = builder.add(b_at, builder.mul(k, ir.Constant(i64, LANES * count)))
            vectors = []
            for v in range(count):
                place = builder.gep(b_data, [builder.add(b_from, ir.Constant(i64, LANES * v))])
                vectors.append(builder.load(builder.bitcast(place, floats.as_pointer()), align=4))
            along = builder.mul(k, step)
            for i in range(ROWS):
                one = builder.load(builder.gep(a_data, [builder.add(rows[i], along)]))
                empty = ir.Constant(floats, ir.Undefined)
                splat = builder.shuffle_vector(
                    builder.insert_element(empty, one, zero), empty, ir.Constant(ir.VectorType(i32, LANES), [0] * LANES)
                )
                for v in range(count):
                    total = builder.call(function, [splat, vectors[v], builder.load(sums[i][v])])
                    builder.store(total, sums[i][v])
        for i in range(ROWS):
            for v in range(count):
                at = builder.add(
                    out_at, builder.add(builder.mul(out_row, ir.Constant(i64, i)), ir.Constant(i64, LANES * v))
                )
                pointer = builder.bitcast(builder.gep(out_data, [at]), floats.as_pointer())
                total = builder.load(sums[i][v])
                with builder.if_else(cgutils.is_not_null(builder, more)) as (then, otherwise):
                    with then:
                        builder.store(builder.fadd(total, builder.load(pointer, align=4)), pointer, align=4)
                    with otherwise:
                        builder.store(total, pointer, align=4)
        return context.get_dummy_value()

    i = types.int64
    return types.void(vectors, a, i, i, i, b, i, i, out, i, i, types.boolean), build


@part
def _tile(width, a, a_at, row, step, b, b_at, depth, out, out_at, out_row, more):
    if width == 4 * LANES:
        _vectors(4, a, a_at, row, step, b, b_at, depth, out, out_at, out_row, more)
    elif width == 3 * LANES:
        _vectors(3, a, a_at, row, step, b, b_at, depth, out, out_at, out_row, more)
    elif width == 2 * LANES:
        _vectors(2, a, a_at, row, step, b, b_at, depth, out, out_at, out_row, more)
    else:
        _vectors(1, a, a_at, row, step, b, b_at, depth, out, out_at, out_row, more)


@part
def _panel(number, panels, vectors):
    """The first column and the width of a panel: whole vectors, shared out evenly."""
    first = number * vectors // panels
    return first * LANES, ((number + 1) * vectors // panels - first) * LANES


@part
def _pack(b, at, row, column, depth, columns, width, panel, to):
    """panel[to + k width + j] = b[at + k row + j column], and zero from `columns` to `width`."""
    whole_depth, whole_columns = 0, 0
    if column == 1:
        whole_depth, whole_columns = depth, columns // 8 * 8
        for k in range(depth):
            for j in range(0, whole_columns, 8):
                store(panel, to + k * width + j, load(b, at + k * row + j))
    elif row == 1:
        whole_depth, whole_columns = depth // 8 * 8, columns // 8 * 8
        for j in range(0, whole_columns, 8):
            for k in range(0, whole_depth, 8):
                transpose_tile(b, at + k + j * column, column, panel, to + k * width + j, width)
    if whole_depth == depth and whole_columns == width:
        return
    for k in range(depth):
        for j in range(whole_columns if k < whole_depth else 0, columns):
            panel[to + k * width + j] = b[at + k * row + j * column]
        for j in range(columns, width):
            panel[to + k * width + j] = 0.0


@part
def _pack_rows(a, at, row, step, rows, left, depth, strip):
    """strip[8 k + i] = a[at + i row + k step] for six rows, zero from `rows` on; `left` are all that follow."""
    if row == 1 and left >= 8:
        for k in range(depth):
            store(strip, 8 * k, load(a, at + k * step))
        return
    for k in range(depth):
        for i in range(ROWS):
            strip[8 * k + i] = a[at + i * row + k * step] if i < rows else 0.0


@part
def _unload(edge, width, out, to, row, rows, columns, more):
    """out[to + i row + j] (+)= edge[i width + j]."""
    whole = columns // 8 * 8
    for i in range(rows):
        source, place = i * width, to + i * row
        for j in range(0, whole, 8):
            sums = load(edge, source + j)
            store(out, place + j, add(sums, load(out, place + j)) if more else sums)
        for j in range(whole, columns):
            out[place + j] = edge[source + j] + (out[place + j] if more else np.float32(0))


@kernel
def product(a, a_strides, b, b_strides, out, shape):
    """Flat arrays; strides of (member, row, column) and shape (members, rows, depth, columns); out is contiguous."""
    members, rows, depth, columns = shape
    vectors = -(-columns // LANES)
    panels = -(-vectors // MOST)
    blocks = -(-depth // DEPTH)
    deep = -(-depth // blocks)
    packed = np.empty(deep * vectors * LANES, np.float32)
    strip = np.empty(deep * 8, np.float32)
    edge = np.empty(ROWS * MOST * LANES, np.float32)
    for m in range(members):
        for first in range(0, depth, deep):
            num, more = min(deep, depth - first), first > 0
            b_at = m * b_strides[0] + first * b_strides[1]
            for p in range(panels):
                start, width = _panel(p, panels, vectors)
                used = min(columns - start, width)
                _pack(b, b_at + start * b_strides[2], b_strides[1], b_strides[2], num, used, width, packed, start * num)
            for i in range(0, rows, ROWS):
                here, row, step = min(ROWS, rows - i), a_strides[1], a_strides[2]
                source, at = a, m * a_strides[0] + i * row + first * step
                if step != 1 or here < ROWS:
                    _pack_rows(a, at, row, step, here, rows - i, num, strip)
                    source, at, row, step = strip, 0, 1, 8
                for p in range(panels):
                    start, width = _panel(p, panels, vectors)
                    used, to = min(columns - start, width), (m * rows + i) * columns + start
                    if here == ROWS and used == width:
                        _tile(width, source, at, row, step, packed, start * num, num, out, to, columns, more)
                    else:
                        _tile(width, source, at, row, step, packed, start * num, num, edge, 0, width, False)
                        _unload(edge, width, out, to, columns, here, used, more)
