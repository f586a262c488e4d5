"""Position-sensitive max-margin rankers."""
