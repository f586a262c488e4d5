"""Threads or Dask: tiles, rounds and reductions. The only layer that knows Dask."""
