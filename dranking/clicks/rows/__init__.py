"""Rows that go from task to task, and their sums over groups of equal keys."""
