"""Losses over whole rankings."""
