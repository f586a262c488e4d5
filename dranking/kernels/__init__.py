"""Compiled arithmetic on arrays; no files and no Dask.

The only imports are numpy, scipy, numba and the standard library.
"""
