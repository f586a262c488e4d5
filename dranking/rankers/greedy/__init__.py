"""Greedy RankRLS: exact selection of features by leave-query-out error, in linear time.

Each round adds the feature with which RankRLS, refitted without each query in turn, has the
smallest error on the queries held out. Objective, state, updates and sources: THEORY.md beside this
file. `estimator.GreedyRankRLS` is the estimator, `selection.select_paths` runs the rounds.

One round of forward selection over dense data on Dask reads in this order:

1. `greedy.selection`, `_advance`: the round of all paths (lambdas).
2. `greedy.forward`, `ForwardSearch`: the candidates, best first; the first candidate is the pick.
3. `greedy.prefetch`: if the Gram row of the pick is not there, predict the upcoming picks, and
   choose the rows that one pass fetches for all of them.
4. `gram.rows`, `GramRows.fetch`: map the pass over the tiles, and sum the rows.
5. `engine.tiles`, `Tiles`: one task for each tile of the data.
6. `engine.cluster.dask_executor`: the tasks run on the workers.
7. `kernels.gram.dense`: the Gram rows of a block, in one read of X.
8. `leave_query_out.dense`, `DenseState.add`: update the state for the pick and the upcoming picks.
9. `kernels.lqo.state`, `update`: the update of every query of a block, and its scores.
10. `kernels.lqo.pivots`: the t numbers for each query that the update takes.
11. `engine.tree_sum`: the sums of rows and scores over all blocks, in a fixed tree.
12. `greedy.contenders`: a check of the best candidates where rounding leaves a doubt about the pick
    of the next round.

Each step calls small helpers: `greedy.path` holds the rules and the features selected so far,
`gram.sample` guesses rows for step 3, `engine.tile_tasks` has the functions that the tasks of
step 5 run, `kernels.gram.per_query` brings blocks into C order for step 7, and
`leave_query_out.certificate` estimates the digits lost for step 12. `greedy.checkpoint` saves the
rounds. `leave_query_out.criterion` is the interface of step 8; sparse data and refits have other
states there.
"""
