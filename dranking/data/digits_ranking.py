"""A real ranking task without a download: scikit-learn's handwritten digits.

An image is a query, and other images are its documents. A feature is the squared difference between
the two images at one pixel; images of the same digit are relevant. The negated sum of all features
therefore ranks by Euclidean distance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

N_PIXELS = 64


class Judged(NamedTuple):
    """Features (n_documents, 64) float32, relevance 0 or 1, and query id of each document."""

    features: NDArray[np.float32]
    relevance: NDArray[np.int64]
    qid: NDArray[np.int64]


def digits_ranking(
    n_train: int = 400, n_test: int = 200, n_documents: int = 100, seed: int = 0
) -> tuple[Judged, Judged]:
    """Make training and test queries from disjoint sets of images, with sampled documents.

    Parameters
    ----------
    n_train, n_test
        Numbers of queries, drawn from two thirds and from one third of the 1,797 images.
    n_documents
        Documents per query, drawn from the same part of the images without the query itself.
    seed
        Seed of all draws.
    """
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    border = 2 * len(images) // 3
    train = _judge(images, digits, order[:border], n_train, n_documents, rng)
    test = _judge(images, digits, order[border:], n_test, n_documents, rng)
    return train, test._replace(qid=test.qid + n_train)


def _judge(
    images: NDArray[np.float64],
    digits: NDArray[np.int64],
    part: NDArray[np.int64],
    n_queries: int,
    n_documents: int,
    rng: np.random.Generator,
) -> Judged:
    queries = part[:n_queries]
    documents = np.array(
        [rng.choice(part[part != query], n_documents, replace=False) for query in queries]
    )
    differences = images[documents] - images[queries][:, None, :]
    return Judged(
        (differences**2).reshape(-1, N_PIXELS).astype(np.float32),
        (digits[documents] == digits[queries][:, None]).astype(np.int64).ravel(),
        np.repeat(np.arange(1, n_queries + 1), n_documents),
    )
