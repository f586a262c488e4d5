"""Compilation of kernels, fused multiply-add, and the rounding of numbers.

`compile` holds the decorators of all kernels. `first_use` says, once, that this process begins to
compile. `instructions` has fused multiply-add, the one machine instruction that NumPy has no name
for. `floats` has the relative rounding of float64.
"""
