"""The last row of a document, against a plain loop."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dranking.data.blocks import QueryBlock

NAMES = st.sampled_from(["a", "b", "c", "", None])


def kept_rows(ids):
    """Positions of the rows of one query that are kept."""
    return [row for row, name in enumerate(ids) if name in ("", None) or name not in ids[row + 1 :]]


@given(st.lists(st.lists(NAMES, min_size=1, max_size=6), min_size=1, max_size=4))
def test_the_last_row_of_a_document_is_kept(queries):
    sizes = [len(ids) for ids in queries]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    n = int(starts[-1])
    block = QueryBlock(
        features=np.arange(n, dtype=np.float32)[:, None],
        relevance=np.zeros(n),
        query_ptr=starts.astype(np.int64),
        query_ids=pa.array(range(len(queries))),
        doc_ids=pa.array([name for ids in queries for name in ids], pa.string()),
    )
    found = block.latest_documents()
    expected = [
        [start + r for r in kept_rows(ids)] for start, ids in zip(starts[:-1], queries, strict=True)
    ]
    assert found.features[:, 0].tolist() == [row for rows in expected for row in rows]
    assert np.diff(found.query_ptr).tolist() == [len(rows) for rows in expected]
    assert found.query_ids == block.query_ids
