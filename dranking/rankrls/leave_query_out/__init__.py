"""The leave-query-out criterion of RankRLS on selected features, and its memory plan.

`criterion` is the interface that a search uses. Three forms implement it, and agree up to rounding:
`dense` keeps a state for every query and feature, `sparse` computes scores from the nonzeros, and
`refit` fits the held-out models again from the Gram rows of the selected features. `predictions`
computes leave-query-out predictions. `memory_plan` chooses what is kept in memory. The mathematics
is in `dranking/rankrls/greedy/THEORY.md`.
"""
