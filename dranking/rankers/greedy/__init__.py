"""Greedy RankRLS: exact selection of features by leave-query-out error, in linear time.

Each round adds the feature with which RankRLS, refitted without each query in turn, has the
smallest error on the queries held out. Objective, state, updates and sources: THEORY.md beside this
file. `estimator.GreedyRankRLS` is the estimator, `selection.select_paths` runs the rounds.

One round of forward selection over dense data on Dask reads in this order:

1. `greedy.selection`, `_advance`: the round of all paths (lambdas).
2. `greedy.forward`, `ForwardSearch`: the candidates, best first; the first candidate is the pick.
   `greedy.contenders` checks the best candidates where rounding leaves a doubt.
3. `greedy.prefetch`: if the Gram row of the pick is not there, choose the rows of one pass.
4. `greedy.upcoming`: predict the upcoming picks, whose rows join the pass.
5. `gram.rows`, `GramRows.fetch`: map the pass over the tiles, and sum the rows.
6. `engine.tiles`: one task for each tile of the data.
7. `engine.cluster.dask_executor`: the tasks run on the workers.
8. `kernels.gram.dense`: the Gram rows of a block, in one read of X.
9. `leave_query_out.dense`, `DenseState.add`: update the state for the pick and the upcoming picks.
10. `kernels.lqo.state`, `update`: the update of every query of a block, and its scores.
11. `kernels.lqo.pivots`: the t numbers for each query that the update takes.
12. `engine.tree_sum`: the sums of rows and scores over all blocks, in a fixed tree.

Helpers on the way: `greedy.path` holds rules and results, `gram.sample` guesses rows for step 4,
and `greedy.checkpoint` saves the rounds. `leave_query_out.criterion` is the interface of step 9;
sparse data and refits have other states there.
"""
