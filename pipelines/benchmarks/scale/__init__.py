"""Greedy RankRLS at scale: a module for each topic.

Each module has a function `figures(quick, ...)`, which measures and returns the figures of its
topic by name. `pipelines.benchmarks.greedy_scale` calls these functions.
"""
