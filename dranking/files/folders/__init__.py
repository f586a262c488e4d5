"""Folders with a manifest, whose files are checked as they are read."""
