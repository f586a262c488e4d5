"""Bytes of text files."""
