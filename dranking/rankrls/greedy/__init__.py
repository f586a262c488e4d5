"""Greedy RankRLS: exact selection of features by leave-query-out error, in linear time.

Each round adds the feature with which RankRLS, refitted without each query in turn, has the
smallest error on the queries held out. Objective, state, updates and sources: THEORY.md beside this
file. `estimator.GreedyRankRLS` is the estimator, `selection.select_paths` runs the rounds.

One round of forward selection over dense data on Dask passes twelve files of the algorithm and
nine of plumbing. The twelve read in this order:

1. `rankrls.greedy.selection`, `_advance`: the round of all paths (lambdas).
2. `rankrls.greedy.forward`, `ForwardSearch`: the candidates, best first; the first candidate is the
   pick.
3. `rankrls.greedy.prefetch`: if the Gram row of the pick is not there, predict the upcoming picks,
   and choose the rows that one pass fetches for all of them.
4. `rankrls.gram.rows`, `GramRows.fetch`: map the pass over the tiles, and sum the rows.
5. `engine.tiles`, `Tiles`: one task for each tile of the data.
6. `engine.cluster.dask_executor`: the tasks run on the workers.
7. `rankrls.kernels.gram.dense`: the Gram rows of a block, in one read of X.
8. `engine.tree_sum`: the sums of rows, and later of scores, over all blocks, in a fixed tree.
9. `rankrls.leave_query_out.dense`, `DenseState.add`: update the state for the pick and the upcoming
   picks.
10. `rankrls.kernels.lqo.state`, `update`: the update of every query of a block, and its scores.
11. `rankrls.kernels.lqo.pivots`: the t numbers for each query that the update takes.
12. `rankrls.greedy.certificate`: a check of the best candidates where rounding leaves a doubt about
    the pick of the next round.

The plumbing is values that these steps pass to each other, and functions whose names say what they
do. The values: `rankrls.greedy.path` (the rules, and the features selected so far) and
`data.blocks`. The functions: `rankrls.gram.sample` guesses rows for step 3, `engine.tile_tasks` has
what the tasks of step 5 run, `engine.executor` counts the bytes of their arguments and knows which
tasks wait for which, `engine.cluster.supervisor` waits for step 6 (a wait of seconds also passes
the files with which it looks after the workers), `rankrls.kernels.lqo.rounding` makes errors equal
that only rounding tells apart, and `kernels.machine.compile` and `kernels.machine.instructions`
compile kernels. A test traces a round, and compares the files and their numbers with this text.

`checkpoint` saves the rounds. `rankrls.leave_query_out.criterion` is the interface of step 9;
sparse data and refits have other states there.
"""
