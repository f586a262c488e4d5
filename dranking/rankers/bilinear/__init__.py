"""Sparse bilinear preference learning."""
