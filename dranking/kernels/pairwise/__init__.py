"""Kernels of pairwise rankers: sums over all pairs of a query, and steps on drawn pairs."""
