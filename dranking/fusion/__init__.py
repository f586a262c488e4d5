"""Fusion of runs: one ranking out of several, by ranks, by scores, or by learned weights."""
