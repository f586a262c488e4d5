"""Losses over the pairs of documents of a query, on one block."""
