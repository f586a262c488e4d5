"""Leave-query-out residuals and errors: states, scores and updates for every query of a block.

The symbols and formulas are those of ``dranking/rankers/greedy/THEORY.md``.
"""
