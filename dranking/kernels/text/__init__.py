"""Hashes of strings.

`hashes` computes 64-bit hashes, which are equal on every machine, under a key.
"""
