"""Sums over pairs of documents, and steps on pairs."""
