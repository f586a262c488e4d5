"""Query blocks for tests, without features."""

import numpy as np
import pyarrow as pa

from dranking.data.blocks import QueryBlock


def make_block(relevance, query_ids=None, doc_ids=None, weights=None):
    """A block from one list of grades per query."""
    sizes = [len(grades) for grades in relevance]
    n_documents = sum(sizes)
    return QueryBlock(
        features=np.zeros((n_documents, 1), dtype=np.float32),
        relevance=np.array([g for grades in relevance for g in grades], dtype=np.float64),
        query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        query_ids=pa.array(range(len(sizes)) if query_ids is None else query_ids),
        doc_ids=None if doc_ids is None else pa.array(doc_ids),
        query_weights=None if weights is None else np.asarray(weights, dtype=np.float64),
    )


def flat(lists):
    """All scores of a list of lists."""
    return np.array([value for values in lists for value in values], dtype=np.float64)
