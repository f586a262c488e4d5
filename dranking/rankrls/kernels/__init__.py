"""Loops on arrays of query-centred features; ``THEORY.md`` has the formulas.

`gram` has moments and Gram rows, `lqo` leave-query-out residuals, errors and updates. `far_columns`
finds columns far from zero, with their medians in each query, and `relative_products` computes X w
and X'g relative to these medians.
"""
