"""How kernels are compiled, and instructions of the processor."""
