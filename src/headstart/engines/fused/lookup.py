"""Rows of tables added up, and gradients added to rows: one pass over the outputs, in their order.

Members never mix, so a result does not depend on what else is in a call.
"""

# mypy: disable-error-code="no-untyped-def"
from headstart.core.kernels.compile import kernel


@kernel
def look_up(tables, x, out):
    """out[m, n] = sum_j tables[m, j, x[m, n, j]]: tables [m, places, symbols, width], x int[m, n, places]."""
    members, num, places = x.shape
    for symbol in x.flat:
        if not 0 <= symbol < tables.shape[2]:
            raise IndexError("a symbol has no row in its table")
    for m in range(members):
        for n in range(num):
            row = out[m, n]
            first = tables[m, 0, x[m, n, 0]]
            if places == 1:
                for i in range(len(row)):
                    row[i] = first[i]
                continue
            second = tables[m, 1, x[m, n, 1]]
            for i in range(len(row)):
                row[i] = first[i] + second[i]
            for j in range(2, places):
                other = tables[m, j, x[m, n, j]]
                for i in range(len(row)):
                    row[i] += other[i]


@kernel
def look_up_backward(d_out, x, d_tables):
    """d_tables[m, j, s] = the sum of d_out[m, n] over the n with x[m, n, j] = s."""
    members, num, places = x.shape
    d_tables[:] = 0
    for m in range(members):
        for n in range(num):
            row = d_out[m, n]
            for j in range(places):
                total = d_tables[m, j, x[m, n, j]]
                for i in range(len(row)):
                    total[i] += row[i]
