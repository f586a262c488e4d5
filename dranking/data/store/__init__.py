"""The data set directory."""
