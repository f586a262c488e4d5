"""The work of the stages for linear and for bilinear rankers, and what the two need for it.

`linear` and `bilinear` are the workflows. `parts` keeps ingested sources, `incremental_statistics`
keeps the statistics store of the training parts up to date, and `drift` compares distributions of
features.
"""
