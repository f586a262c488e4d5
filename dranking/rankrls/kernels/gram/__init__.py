"""Moments and Gram rows of query-centred features: all that RankRLS reads of a data set.

`dense` and `sparse` hold the kernels, and the Gram rows of some features; `per_query` holds moments
and Gram matrices of features in any form. `sparse_totals` sums CSR features over queries,
`sparse_query` holds the arrays of a single query of CSR features, and `whole_blocks` computes all
Gram rows of a block. The symbols are those of ``dranking/rankrls/greedy/THEORY.md``.
"""
