"""RankRLS and greedy RankRLS, of Pahikkala, Airola, Naula and Salakoski (2010).

`RankRLS` (`estimator`) solves the normal equations (`normal_equations`) of the regularised pairwise
squared loss over all features; `RankRLSCV` (`cross_validation`) chooses lambda by the exact
leave-query-out error (`grid_errors`, from the `row_forms` of the data), without refitting.
`wide_rows` is the form of rows for more features than factors take,
`checked_weights` bounds the rounding of weights, `sign_constraints` has weights that may not be
negative, and `dominant_queries` finds queries that alone
determine a direction of the features. ``THEORY.md`` beside this file holds the objective and the
shortcut.

| folder | what it is for |
|---|---|
| `greedy` | exact selection of features by leave-query-out error |
| `leave_query_out` | the criterion of this selection, and its memory plan |
| `gram` | moments, Gram rows and sums of pairs, also for statistics stores |
| `statistics` | statistics stores: files with the statistics of each query |
| `kernels` | the loops behind these |
"""
