"""Pairs of documents drawn at random, on one block."""
