"""The registry: versions of a model and their aliases, in a directory or an object store."""
