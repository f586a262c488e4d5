"""The moves of files to their packages, made by a command: ``python -m moves``."""
