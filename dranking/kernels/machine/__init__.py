"""Compilation of kernels, fused multiply-add, and the rounding of numbers.

`compile` holds the decorators of all kernels. `first_use` tells when this process begins to
compile, and which kernels another process compiles. `instructions` has fused multiply-add, the one
machine instruction that NumPy has no name for. `floats` has the relative rounding of float64.
"""
