"""LETOR / SVMlight ranking text."""
