"""Arithmetic on arrays: numpy, scipy and numba only; no files, no Dask."""
