"""What greedy RankRLS shows at scale, a module for each topic.

Each has `figures(quick, ...)`, which measures and returns its figures by name; the driver is
`pipelines.benchmarks.greedy_scale`.
"""
