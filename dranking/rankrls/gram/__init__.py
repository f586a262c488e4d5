"""Moments and Gram rows: all that RankRLS and its selections read of the data.

`moments` computes the moments of every query, and `rows` the Gram rows; both have the sums over all
queries. `sample` guesses rows that were not computed yet. `statistics_store` builds stores that
serve in the place of documents. `dranking/rankrls/greedy/THEORY.md` defines the symbols.
"""
