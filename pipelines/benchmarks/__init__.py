"""Benchmarks against other tools: ``python -m pipelines.benchmarks.NAME --json [--quick]``."""
