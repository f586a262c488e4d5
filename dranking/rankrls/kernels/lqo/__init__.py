"""Leave-query-out residuals and errors: states, scores and updates for every query of a block.

For dense features, `state` holds the four numbers of each query and feature, gives scores and takes
updates; `pivots` finds the t numbers of each query that an update takes. For CSR features, `sparse`
computes the same scores without a state, with `sparse_fits` (fits to all queries, and to all but
one), `sparse_hold_out` and `sparse_forms`. `predictions` computes held-out scores. The symbols and
formulas are those of ``dranking/rankrls/greedy/THEORY.md``.

For all features at once, `orthogonal` works with orthogonal rows of the documents, which come from
the factor of `pair_factor` (in double-double), from rows of a statistics store, or from the
eigenvectors of A; `held_out` works in factors of a few kept features, and `one_more` in those of
several candidates beside them; see ``dranking/rankrls/THEORY.md``. `elimination` and `added` select
features one by one on the factor in double-double. `rounding` and `factor_rounding`
estimate rounding errors; `rounding` also makes errors equal that only rounding tells apart.
"""
