"""The ranking task made of scikit-learn's digits."""

import numpy as np
from sklearn.datasets import load_digits

from dranking.data.digits import digits_ranking


def test_documents_are_other_images_of_the_same_part():
    train, test = digits_ranking(n_train=30, n_test=20, n_documents=15, seed=3)
    images, digits = load_digits(return_X_y=True)
    for part, n in ((train, 30), (test, 20)):
        assert part.features.shape == (15 * n, 64)
        assert len(np.unique(part.qid)) == n
        assert (part.features.sum(axis=1) > 0).all()
    assert not set(train.qid) & set(test.qid)
    assert set(np.unique(train.relevance)) == {0, 1}
    # A document with an image all zeros apart would be the query itself; squared differences of
    # whole numbers from 0 to 16 are squares.
    roots = np.sqrt(train.features)
    np.testing.assert_array_equal(roots, np.round(roots))
    assert roots.max() <= 16
    assert 0.05 < train.relevance.mean() < 0.2
    assert len(images) == len(digits)


def test_a_seed_decides_everything():
    first, again, other = (digits_ranking(10, 5, 8, seed=s) for s in (1, 1, 2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.features, b.features)
        np.testing.assert_array_equal(a.relevance, b.relevance)
    assert not np.array_equal(first[0].features, other[0].features)
