"""The chain over thousands of runs: serial numba kernels that release the GIL; threads over chunks are the caller's.

They lie apart, so that the cache, which is keyed by the sources of this package, outlives changes of the others.
"""
