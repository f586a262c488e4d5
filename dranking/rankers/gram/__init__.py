"""Moments and Gram rows of a data set."""
