"""Tables with missing values, and the same tables filled by hand with the training data's values.

This module imports nothing of dranking.
"""

import numpy as np
import pandas as pd


def table_with_gaps(seed, n_queries=40, n_documents=10, share=0.3):
    """A table in which `share` of the column `rating` is missing, and no other value."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_documents
    rating = rng.normal(4.0, 0.7, n).round(2)
    bm25 = rng.normal(10.0, 3.0, n).round(3)
    age = rng.integers(0, 2_000, n).astype(float)
    score = 0.4 * bm25 + 1.5 * rating - 0.001 * age + rng.normal(0.0, 1.0, n)
    grade = np.digitize(score, np.quantile(score, [0.6, 0.85, 0.95]))
    missing = rng.random(n) < share
    return pd.DataFrame(
        {
            "qid": np.repeat(np.arange(n_queries), n_documents),
            "docid": [f"d{i}" for i in range(n)],
            "relevance": grade,
            "bm25": bm25,
            "rating": np.where(missing, np.nan, rating),
            "age": age,
        }
    )


def value_of(policy, column):
    """The value that stands for a missing value of a column of the training data."""
    there = column.astype(np.float32).astype(np.float64).dropna()
    return {"zero": 0.0, "minimum": there.min(), "mean": there.mean()}[policy]


def filled_by_hand(table, policy, train):
    """The table with the values of the training table in place of missing ones."""
    features = [name for name in train.columns if name not in ("qid", "docid", "relevance")]
    return table.fillna({name: value_of(policy, train[name]) for name in features})
