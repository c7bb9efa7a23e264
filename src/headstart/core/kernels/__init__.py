"""Numba kernels: how they are compiled and cached, and the random streams inside them. Imports no numba by itself."""
