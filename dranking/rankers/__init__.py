"""Estimators and the models they make."""
