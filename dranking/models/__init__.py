"""Models, what scores documents, its evaluation, and what the rankers of all papers share.

`linear` has linear models and the base class of all rankers that make them, `training` the epochs,
learning curves, validation and checkpoints of iterative training, and `export` writes linear models
for search engines, databases and services. `load` reads stored models, `scorers` opens whatever
scores documents, `given_scores` joins scores to documents, and `write_scores` writes scores.
`evaluation` measures how well a model ranks a data set, and `comparison` compares models,
both also by the groups of queries that `query_groups` finds.
`trained_queries` are hashes of the queries that a model was trained on, in a file beside it.
"""
