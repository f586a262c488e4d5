"""Losses of one block of queries, with their derivatives with respect to scores and weights.

`margins` has the pairs whose margins depend on positions, and `listwise` the hinges of whole
rankings.
"""
