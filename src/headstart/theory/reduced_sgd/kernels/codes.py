"""Numbers that NumPy and kernels share. Imports no numba."""

# Kinds of links of one number, and what a target makes of several.
SERIES, ERF, TANH, RELU, SIGN = range(5)
ONE, PRODUCT, COMMITTEE, TERMS = range(4)

RUN_BITS = 40  # of an id, for the samples of a run
# Where in an id the numbers of a Wishart matrix begin: its chi-squares, then its normals.
DIAGONAL_LANE, OTHER_LANE = 2**32, 2**33
TRIES = 64  # lanes for one chi-square, of which one in 20 needs more than one

# What is left of a row below this part of it is rounding error: the row lies in the span of those before.
RANK_TOLERANCE = 1e-12
