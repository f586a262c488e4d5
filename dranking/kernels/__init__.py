"""Compiled arithmetic on arrays that several packages share; no files and no Dask.

The only imports are numpy, scipy, numba and the standard library. Kernels of one paper, and
kernels that stand on those, are in a folder `kernels` of its package, under the same rule.

| folder or module | arithmetic |
|---|---|
| `machine` | compilation of kernels, fused multiply-add, and the rounding of numbers |
| `sorting` | sorting inside of kernels |
| `grouping` | groups of equal rows of integers |
| `products` | X w and X'g |
| `text` | hashes of strings |
"""
