"""Choice of hyperparameters.

`tune` tries settings of a kind of ranker on validation data, on folds of queries or on
leave-query-out predictions, and trains the model that it chooses.
"""
