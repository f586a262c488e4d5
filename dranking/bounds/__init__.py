"""Bounds of the risk of a ranker on queries to come, from its training error."""
