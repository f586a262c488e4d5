"""The stages of a run; `stages` has one function for each."""
