"""Ranking measures, a file for each family; `by_name` knows all of them."""
