"""What the engine shows on worker processes, a module for each topic.

Each has `figures(quick, ...)`, which measures and returns its figures by name; the driver is
`pipelines.benchmarks.engine`.
"""
