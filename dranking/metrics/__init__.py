"""Ranking measures on one block of queries, their conventions, and the comparison of models."""
