"""Interleaving: pages of two rankers, and which of the two the clicks prefer."""
