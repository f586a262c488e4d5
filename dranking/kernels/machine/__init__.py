"""How kernels are compiled, and fused multiply-add."""
