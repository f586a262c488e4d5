"""Loops behind the ranking measures.

`measures` computes them on whole queries, documents already in rank order; the docstring of
`dranking.metrics` has the formulas.
"""
