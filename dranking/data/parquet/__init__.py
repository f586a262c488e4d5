"""Flat parquet files as data sets."""
