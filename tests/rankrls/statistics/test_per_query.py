"""Per-query statistics: their definition, scaling and selection of queries."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.rankrls.statistics.per_query import QueryStatistics
from tests.data.store.blocks import query_blocks
from tests.rankrls.statistics.stores import blocks_of, matrices, written


def by_definition(block):
    """(A_q, b_q, y_q.y_q, l_q) of every query, by its labelled documents."""
    features = block.features.toarray() if block.is_sparse else block.features
    for start, end in zip(block.query_ptr[:-1], block.query_ptr[1:], strict=True):
        rows = np.arange(start, end)[~np.isnan(block.relevance[start:end])]
        x, y = features[rows].astype(np.float64), block.relevance[rows]
        if len(rows):
            x, y = x - x.mean(axis=0), y - y.mean()
        yield x.T @ x, x.T @ y, y @ y, len(rows)


@pytest.mark.parametrize("is_sparse", [False, True])
@given(data=st.data())
def test_statistics_are_those_of_the_definition(tmp_path_factory, is_sparse, data):
    block = data.draw(query_blocks(is_sparse, n_features=data.draw(st.integers(1, 40))))
    values = block.features.data if is_sparse else block.features
    values[:] = np.clip(values, -1e3, 1e3)
    block = replace(block, query_ids=pa.array(range(block.n_queries)))
    store = written([block], tmp_path_factory.mktemp("s") / "store")
    found = store.pieces(0)
    kept = matrices(found)
    for q, (gram, products, norm, n_labelled) in enumerate(by_definition(block)):
        # The rounding error of a mean follows the size of the values, not their spread.
        bound = 1e-13 * max(1.0, float(np.abs(values).max(initial=0.0))) ** 2 * block.n_documents
        np.testing.assert_allclose(kept[q], gram, rtol=1e-9, atol=bound)
        np.testing.assert_allclose(found.diagonal[q], np.diag(gram), rtol=1e-9, atol=bound)
        np.testing.assert_allclose(found.products[q], products, rtol=1e-9, atol=bound)
        assert found.label_norms[q] == pytest.approx(norm, rel=1e-12, abs=1e-12)
        assert found.labelled_sizes[q] == n_labelled
    np.testing.assert_array_equal(found.sizes, np.diff(block.query_ptr))
    np.testing.assert_array_equal(found.weights, block.weights)
    assert found.value_counts.sum() == block.info.n_values
    assert found.query_ids.to_pylist() == [str(i) for i in block.query_ids.to_pylist()]


def test_the_diagonal_is_that_of_the_gram_matrix():
    found = QueryStatistics.of(next(blocks_of(1, n_features=40)))
    gram = matrices(found)
    np.testing.assert_array_equal(found.diagonal, np.diagonal(gram, axis1=1, axis2=2))
    np.testing.assert_array_equal(gram, gram.swapaxes(1, 2))
