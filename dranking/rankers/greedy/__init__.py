"""Greedy RankRLS."""
