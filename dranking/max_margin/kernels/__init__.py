"""Losses over whole rankings: most violated rankings, linear assignment, a simplex solver.

The mathematics is in ``dranking/max_margin/THEORY.md``.
"""
