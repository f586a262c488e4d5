"""Loops on arrays of query-centred features.

`gram` has moments and Gram rows, `lqo` leave-query-out residuals, errors and updates. `far_columns`
finds columns far from zero, with their medians in each query, and `relative_products` computes X w
and X'g relative to these medians; the rankers over pairs and the max-margin rankers use both.

``dranking/rankrls/THEORY.md`` and ``dranking/rankrls/greedy/THEORY.md`` have the formulas,
``dranking/pairwise/THEORY.md`` has the formulas for far columns.
"""
