"""The ranking task made of scikit-learn's digits, against the images themselves."""

import numpy as np
from sklearn.datasets import load_digits

from dranking.data.digits_ranking import digits_ranking

IMAGES, DIGITS = load_digits(return_X_y=True)
SQUARES = (IMAGES**2).sum(axis=1)
DISTANCES = SQUARES[:, None] + SQUARES - 2 * IMAGES @ IMAGES.T  # exact, since all are whole numbers


def images_behind(features):
    """Indices of the query's image and of the documents' images, found by their differences."""
    of_rows = features.sum(axis=1)
    for query in range(len(IMAGES)):
        found = [np.flatnonzero(DISTANCES[query] == distance) for distance in of_rows[:3]]
        if not all(map(len, found)):
            continue
        differences = (IMAGES - IMAGES[query]) ** 2
        documents = []
        for row in features:
            same = np.flatnonzero((differences == row).all(axis=1))
            if len(same) != 1:
                break
            documents.append(int(same[0]))
        else:
            return query, np.array(documents)
    raise AssertionError("no image has these differences to others")


def test_documents_are_other_images_of_the_same_part():
    n_documents = 12
    sets = []
    for part, n_queries in zip(digits_ranking(8, 5, n_documents, seed=3), (8, 5), strict=True):
        assert part.features.shape == (n_documents * n_queries, 64)
        assert part.features.dtype == np.float32
        used = set()
        queries = []
        for qid in np.unique(part.qid):
            rows = part.qid == qid
            query, documents = images_behind(part.features[rows])
            assert query not in documents
            assert len(set(documents)) == n_documents
            np.testing.assert_array_equal(part.relevance[rows], DIGITS[documents] == DIGITS[query])
            queries.append(query)
            used |= {query, *documents.tolist()}
        assert len(set(queries)) == n_queries
        sets.append((used, set(part.qid)))
    (train_images, train_ids), (test_images, test_ids) = sets
    assert not train_images & test_images
    assert not train_ids & test_ids


def test_rows_of_a_query_are_adjacent_and_some_are_relevant():
    train, test = digits_ranking(n_train=40, n_test=20, n_documents=30)
    for part, n_queries in ((train, 40), (test, 20)):
        assert (np.diff(part.qid) != 0).sum() == n_queries - 1
        assert set(np.unique(part.relevance)) == {0, 1}
        assert 0.05 < part.relevance.mean() < 0.15  # one digit of ten


def test_a_seed_decides_everything():
    first, again, other = (digits_ranking(10, 5, 8, seed=s) for s in (1, 1, 2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.features, b.features)
        np.testing.assert_array_equal(a.relevance, b.relevance)
    assert not np.array_equal(first[0].features, other[0].features)
