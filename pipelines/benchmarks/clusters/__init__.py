"""Benchmarks of the engine on worker processes, a module for each topic.

The function `figures(quick, ...)` of a topic measures and returns its figures by name.
`pipelines.benchmarks.engine` runs the topics. `runs` and `faults` hold what topics share.
"""
