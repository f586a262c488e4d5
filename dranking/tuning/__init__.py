"""Choice of hyperparameters, and evaluation of models on data sets.

`tune` tries settings of a kind of ranker on validation data, on folds of queries or on
leave-query-out predictions, and trains the model that it chooses; `evaluate` measures how well a
model ranks a data set.
"""
