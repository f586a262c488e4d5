"""Runnable pipelines: wiring only; the work is done by the library."""
