"""Query blocks: what their digests depend on."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from tests.data.store.blocks import simple_block

BLOCK = simple_block(query_weights=np.array([1.0, 2.0]), doc_ids=pa.array(["a", "b", "c"]))


@pytest.mark.parametrize(
    "change",
    [
        {"features": BLOCK.features[:, ::-1].copy()},
        {"features": sparse.csr_array(BLOCK.features)},
        {"relevance": np.array([0.0, 1.0, 0.0])},
        {"query_ptr": np.array([0, 1, 3])},
        {"query_ids": pa.array([10, 12])},
        {"query_weights": np.array([2.0, 1.0])},
        {"query_weights": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_content_has_another_digest(change):
    assert replace(BLOCK, **change).digest() != BLOCK.digest()


def test_ids_of_documents_comments_and_the_layout_do_not_matter():
    same = replace(
        BLOCK,
        doc_ids=None,
        comments=pa.array(["x", "y", "z"]),
        features=np.asfortranarray(BLOCK.features),
    )
    assert same.digest() == BLOCK.digest()
    equal = replace(BLOCK, query_weights=np.ones(2))
    assert equal.digest() == replace(BLOCK, query_weights=None).digest()
