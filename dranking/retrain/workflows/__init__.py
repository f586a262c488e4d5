"""The work of the stages for linear and for bilinear rankers, with its tools.

`linear` and `bilinear` are the workflows. `judged_queries` decides what happens to training queries
that are judged. `parts` keeps ingested sources, `incremental_statistics`
keeps the statistics store of the training parts up to date, and `drift` compares distributions of
features.
"""
