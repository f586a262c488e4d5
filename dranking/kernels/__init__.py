"""Compiled arithmetic on arrays; no files and no Dask.

The only imports are numpy, scipy, numba and the standard library.

| folder or module | arithmetic | formulas in ``THEORY.md`` of |
|---|---|---|
| `gram` | moments and Gram rows of query-centred features | `rankers.greedy` |
| `lqo` | leave-query-out residuals, errors and updates | `rankers.greedy`, `rankers.rankrls` |
| `pairwise` | losses over all pairs of a query; steps on drawn pairs | `rankers.pairwise` |
| `listwise` | most violated rankings, linear assignment, a simplex solver | `rankers.max_margin` |
| `bilinear` | steps on a sparse matrix W, with lazy shrinkage | `rankers.bilinear` |
| `metrics` | ranking measures of whole queries | (the docstring of `metrics`) |
| `products` | X w and X'g | |
| `far_columns` | columns far from zero, and their medians in each query | `rankers.pairwise` |
| `relative_products` | X w and X'g, relative to these medians | `rankers.pairwise` |
| `grouping` | groups of equal rows of integers | |
| `sorting` | sorting inside of kernels | |
| `text` | parsing of LETOR text and CSV, and hashes of strings | |
| `machine` | compilation of kernels, fused multiply-add, and the rounding of numbers | |
"""
