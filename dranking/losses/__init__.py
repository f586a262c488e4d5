"""Losses of one block of queries, with their derivatives with respect to scores and weights.

`pairwise` has losses over all pairs of documents of a query, `margins` the pairs whose margins
depend on positions, and `listwise` the hinges of whole rankings.
"""
