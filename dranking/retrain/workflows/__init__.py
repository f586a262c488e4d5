"""The work of the stages for linear and for bilinear rankers, with its tools.

`linear` and `bilinear` are the workflows. `parts` keeps ingested sources, and `champion` says what
a run takes over from the champion. `judged_queries` decides what happens to training queries that
are judged; `whole_queries` brings the rows of queries of several parts together.
`incremental_statistics` keeps the statistics store of the training parts up to date, and `drift`
compares distributions of features.
"""
