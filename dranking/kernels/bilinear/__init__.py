"""Sparse weights of q'Wd."""
