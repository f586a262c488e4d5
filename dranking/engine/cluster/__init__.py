"""Dask clusters: connecting, waiting, deploying."""
