"""Scheduled retraining: runs in stages, the registry of models, and the gate between them."""
