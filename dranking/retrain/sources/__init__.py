"""Sources of a run: files known by their content, and those that are no longer there."""
