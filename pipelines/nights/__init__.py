"""Nights of retraining as an operator has them, with what goes wrong."""
