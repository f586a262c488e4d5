"""Moments and Gram rows of query-centred features."""
