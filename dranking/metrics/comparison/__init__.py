"""Comparison of models over the same queries: intervals, tests, and repeated looks."""
