"""Parts that share queries as one data set, against plain loops over their rows."""

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.blocks import block_boundaries
from dranking.retrain.workflows import whole_queries as whole_queries_module
from dranking.retrain.workflows.parts import joined
from dranking.retrain.workflows.whole_queries import share_queries, whole_queries

PARTS = {"ids": [[1, 1, 2, 3, 3], [3, 5, 5], [2, 4, 3]], "texts": [["a", "b"], ["b"], ["c", "b"]]}


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_bytes", [2**30, 1])
@pytest.mark.parametrize("name", PARTS)
def test_a_query_has_the_rows_of_all_parts(tmp_path, name, n_bytes, is_sparse):
    parts, expected, row = [], {}, 0.0
    for ids in PARTS[name]:
        values = np.arange(row, row + len(ids), dtype=np.float32)
        row += len(ids)
        for query, value in zip(ids, values.tolist(), strict=True):
            expected.setdefault(query, []).append((value, 100 - value, value % 3))
        X = np.column_stack((values, 100 - values)).astype(np.float32)
        y = (values % 3).astype(float)
        parts.append(dr.from_arrays(sparse.csr_array(X) if is_sparse else X, y, np.array(ids)))
    found = whole_queries(parts, tmp_path / "shared", n_bytes)
    again = whole_queries(parts, tmp_path / "shared", n_bytes)
    assert found.fingerprint == again.fingerprint
    rows = {}
    for block in found.read_blocks():
        X = block.features.toarray() if is_sparse else block.features
        for q, query in enumerate(block.query_ids.to_pylist()):
            own = slice(block.query_ptr[q], block.query_ptr[q + 1])
            assert query not in rows
            columns = (*X[own].T.tolist(), block.relevance[own].tolist())
            rows[query] = list(zip(*columns, strict=True))
    assert rows == expected
    assert found.n_queries == len(expected)


def test_parts_without_common_queries_stay_as_they_are(tmp_path):
    rng = np.random.default_rng(1)
    parts = [
        dr.from_arrays(rng.normal(size=(4, 2)), np.arange(4) % 2, [q, q, q, q]) for q in (1, 2)
    ]
    assert not share_queries(parts)
    assert whole_queries(parts, tmp_path / "shared", 2**30).parts == tuple(parts)
    assert not (tmp_path / "shared").exists()


def test_blocks_do_not_depend_on_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_queries_module, "block_boundaries", small_blocks)
    rng = np.random.default_rng(2)
    qid = np.repeat(np.arange(30), rng.integers(1, 9, 30))
    y = rng.integers(0, 3, len(qid))
    parts = [dr.from_arrays(rng.normal(size=(len(qid), 2)), y, qid) for _ in range(2)]
    found = [whole_queries(parts, tmp_path / str(n), n) for n in (2**30, 4000, 1)]
    assert len(found[0].blocks) > 3
    assert found[0].blocks == found[1].blocks == found[2].blocks
    assert found[0].fingerprint == found[1].fingerprint == found[2].fingerprint


def small_blocks(sizes, max_documents=20):
    return block_boundaries(sizes, max_documents)


def test_ids_of_other_types_are_texts(tmp_path):
    """A part has numbers as ids, another one texts."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(8, 2)), np.arange(8) % 3
    parts = [dr.from_arrays(X, y, [1] * 4 + [2] * 4), dr.from_arrays(X, y, ["2"] * 4 + ["3"] * 4)]
    found = whole_queries(parts, tmp_path / "shared", 2**30)
    assert sorted(found.query_ids().to_pylist()) == ["1", "2", "3"]
    assert joined(parts).query_ids().to_pylist() == ["1", "2", "2", "3"]
