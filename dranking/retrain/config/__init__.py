"""The configuration of a retraining run: its file, the tables in it, and the types of values."""
