"""Choice of hyperparameters, and evaluation of models on data sets."""
