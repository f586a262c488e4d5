"""Writing: files and directories, whole or not at all, at any place."""
