"""Moments and Gram rows of query-centred features: all that RankRLS reads of a data set.

`per_query` holds the functions for features in any form, which call the kernels of `dense` and
`sparse`. `sparse_totals` sums CSR features over queries, `sparse_query` holds the arrays of a
single query of CSR features, and `whole_blocks` computes all Gram rows of a block. The symbols are
those of ``dranking/rankers/greedy/THEORY.md``.
"""
