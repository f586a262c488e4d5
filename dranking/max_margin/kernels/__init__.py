"""Losses over whole rankings: worst rankings, linear assignment, the least maximum of planes.

The mathematics is in ``dranking/max_margin/THEORY.md``.
"""
