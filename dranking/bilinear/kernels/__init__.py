"""Stochastic steps on a sparse matrix W of word pairs, with lazy shrinkage.

`steps` takes the steps of a batch of tuples, in windows (`window`, `postings`) between which
`shrinkage` soft-thresholds W. `sparse_weights` and `sparse_rows` store W. The formulas are in
``dranking/bilinear/THEORY.md``.
"""
