"""Sparse bilinear preference learning: the score of a document d for a query q is ``q' W d``.

`BilinearRanker` (`estimator`) learns W, a sparse matrix of weights of word pairs, from preferences
of queries between documents; `inputs` checks these, `first_weights` is where W begins, `training`
runs the epochs, `model` holds the trained W, `query_record` the queries that it was trained on, and
`evaluation` ranks collections; `texts` holds collections and preferences, and `tuples` draws from
these. The steps are in `kernels`.
``THEORY.md`` beside this file holds the objective, the state, the formulas and the paper, Chen,
Bai, Qi, Lin and Carbonell (2010).
"""
