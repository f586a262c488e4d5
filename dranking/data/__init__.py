"""Data sets on disk, query blocks in memory, readers, writers and scaling."""
