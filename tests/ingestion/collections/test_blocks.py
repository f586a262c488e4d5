"""Blocks of collections have the bits of blocks of data in memory in the same order."""

from itertools import pairwise

import dask.array as da
import dask.dataframe as dd
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy import sparse

from dranking.data.roles import DEFAULT_COLUMNS, Roles
from dranking.data.tables.columns import find_layout
from dranking.data.tables.in_memory import from_arrays, from_table
from dranking.engine.executor import ThreadExecutor
from dranking.errors import DataError, TryAgainError, UsageError
from dranking.ingestion.collections import block_plan as plan_module
from dranking.ingestion.collections.assembly import Recipe, submit_blocks
from dranking.ingestion.collections.block_plan import BlockPlan
from dranking.ingestion.collections.partitions import make_part
from dranking.ingestion.dask_collections import as_dataset


def regrouped(frame):
    """The rows by query: queries by first appearance, rows of a query in order; a plain loop."""
    rows = {}
    for number, query in enumerate(frame["qid"].tolist()):
        rows.setdefault(query, []).append(number)
    return frame.iloc[[number for numbers in rows.values() for number in numbers]]


def assert_same_blocks(found, expected):
    assert found.blocks == expected.blocks
    assert found.feature_names == expected.feature_names
    assert found.query_ids().equals(expected.query_ids())
    for index in range(expected.n_blocks):
        one, other = found.block(index), expected.block(index)
        assert one.digest() == other.digest()
        assert one.is_sparse or one.features.strides == other.features.strides
        if other.doc_ids is not None:
            assert one.doc_ids.equals(other.doc_ids)
    assert found.fingerprint == expected.fingerprint


def ranking_frame(rng, n_rows, n_queries, *, text=False):
    qid = rng.integers(n_queries, size=n_rows)
    return pd.DataFrame(
        {
            "docid": rng.permutation(n_rows),
            "b": rng.normal(size=n_rows),
            "qid": [f"q{i}" for i in qid] if text else qid,
            "relevance": np.where(rng.random(n_rows) < 0.2, np.nan, rng.integers(3, size=n_rows)),
            "a": rng.integers(9, size=n_rows),
        }
    )


def in_partitions(frame, cuts):
    """A dask DataFrame with partitions that end at `cuts`; some may be empty."""
    borders = [0, *sorted(cuts), len(frame)]
    parts = [frame.iloc[i:j] for i, j in pairwise(borders)]
    return dd.from_map(lambda part: part, parts, meta=frame.iloc[:0])


@settings(max_examples=15)
@given(data=st.data())
def test_any_order_and_partitions(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_rows = data.draw(st.integers(1, 60))
    frame = ranking_frame(rng, n_rows, data.draw(st.integers(1, 20)), text=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        frame = frame.sort_values("qid", kind="stable", ignore_index=True)
    cuts = data.draw(st.lists(st.integers(0, n_rows), max_size=5))
    most = data.draw(st.sampled_from([1, 3, 8, 100]))
    with pytest.MonkeyPatch.context() as patch:
        cut = plan_module.block_boundaries
        patch.setattr(plan_module, "block_boundaries", lambda sizes: cut(sizes, most))
        found = as_dataset(in_partitions(frame, cuts), executor="threads")
    assert_same_blocks(found, from_table(regrouped(frame), max_documents=most))


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_arrays(layout, shuffled, monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 6)) * (rng.random((300, 6)) < 0.3)
    qid = rng.integers(40, size=300)
    order = np.arange(300) if shuffled else np.argsort(qid, kind="stable")
    X, qid, y = X[order], qid[order], rng.normal(size=300)
    rows = regrouped(pd.DataFrame({"qid": qid})).index.to_numpy()
    weights = rng.random(len(np.unique(qid)))
    cut = plan_module.block_boundaries
    monkeypatch.setattr(plan_module, "block_boundaries", lambda sizes: cut(sizes, 50))
    found = as_dataset(
        da.from_array(X, chunks=(70, 4)).map_blocks(layout),
        da.from_array(y, chunks=90),
        qid=qid,
        query_weights=dict(zip(pd.unique(qid), weights, strict=True)),
    )
    expected = from_arrays(
        layout(X[rows]), y[rows], qid[rows], query_weights=weights, max_documents=50
    )
    assert_same_blocks(found, expected)


ROWS = ranking_frame(np.random.default_rng(5), 90, 12).sort_values("qid", kind="stable")


@pytest.mark.parametrize(
    "form",
    [
        lambda frame: frame,
        lambda frame: frame.persist(),
        lambda frame: frame.set_index("docid", sorted=False, drop=False)[[*frame.columns]],
        lambda frame: frame.assign(qid=frame["qid"].astype("category")),
        lambda frame: frame.assign(qid=frame["qid"].astype("uint16")),
        lambda frame: frame.astype({"a": "float32[pyarrow]", "b": "float64[pyarrow]"}),
    ],
)
def test_forms_of_frames(form):
    found = as_dataset(form(in_partitions(ROWS.reset_index(drop=True), [20, 20, 55, 90])))
    if found.block(0).doc_ids.equals(from_table(ROWS).block(0).doc_ids):
        assert_same_blocks(found, from_table(ROWS))
    else:  # set_index sorts the rows by document
        by_document = ROWS.sort_values("docid", kind="stable")
        assert_same_blocks(found, from_table(regrouped(by_document)))


def test_text_ids_in_some_partitions():
    """Integers beyond 64 bits are text; then all ids are."""
    frame = pd.DataFrame({"qid": [1, 1, 2**70, 7], "relevance": 1.0, "x": [1.0, 2.0, 3.0, 4.0]})
    frame["qid"] = frame["qid"].astype(object)
    found = as_dataset(in_partitions(frame, [2, 2]))
    assert found.query_ids().to_pylist() == ["1", str(2**70), "7"]
    assert found.block(0).query_ids.to_pylist() == ["1", str(2**70), "7"]


FLAWS = {
    "missing id": ({"qid": [1, None, 2]}, DataError, "partition 1, row 0: qid is missing"),
    "infinite grade": ({"relevance": [0, 1, np.inf]}, DataError, "partition 1, row 1: relevance"),
    "huge grade": ({"relevance": [0, 1, 1e154]}, DataError, "partition 1, row 1: relevance is 1e"),
    "missing value": ({"x": [1.0, 2.0, None]}, DataError, r"partition 1, row 1.*'x' \(query 2\)"),
    "beyond float32": ({"x": [1.0, 1e300, 2.0]}, DataError, "partition 1, row 0.*beyond float32"),
    "text": ({"x": ["a", "b", "c"]}, DataError, "cannot be features: 'x'"),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_flaws_are_placed(flaw):
    columns, error, message = FLAWS[flaw]
    frame = pd.DataFrame({"qid": [1, 1, 2], "relevance": 1.0, "x": [1.0, 2.0, 3.0]})
    with pytest.raises(error, match=message):
        as_dataset(in_partitions(frame.assign(**columns), [1]))


def test_collections_without_rows_or_with_two_kinds_of_weights():
    with pytest.raises(DataError, match="no documents"):
        as_dataset(in_partitions(ROWS.iloc[:0], []))
    weighted = ROWS.assign(weight=2.0)
    assert as_dataset(in_partitions(weighted, [30])).block(0).weights.tolist() == [2.0] * 12
    with pytest.raises(UsageError, match="column 'weight'"):
        as_dataset(in_partitions(weighted, [30]), query_weights=ROWS.groupby("qid").size())
    with pytest.raises(DataError, match="no weight for query"):
        as_dataset(in_partitions(ROWS, [30]), query_weights=ROWS.groupby("qid").size()[:-1])


@pytest.mark.parametrize("scattered", [False, True])
def test_a_partition_that_changes_between_scan_and_assembly(scattered):
    """As after the loss of a worker, behind a shuffle: never blocks of other rows."""
    frame = ROWS.sample(frac=1, random_state=0) if scattered else ROWS
    pieces = [frame.iloc[:40], frame.iloc[40:]]
    parts = [make_part(number, Roles(), piece) for number, piece in enumerate(pieces)]
    lines = [part.lines for part in parts]
    plan, digests = BlockPlan(lines), [each.digest for each in lines]
    layout = find_layout(parts[0].table.schema, DEFAULT_COLUMNS, "x")
    executor = ThreadExecutor(1)
    recipe = Recipe(layout, 2, False)
    [same] = executor.gather(submit_blocks(executor, plan, parts, digests, recipe, None))
    assert same.digest() == from_table(regrouped(frame)).block(0).digest()
    turned = pieces[1].assign(a=pieces[1]["a"].to_numpy()[::-1])
    parts[1] = make_part(1, Roles(), turned)
    with pytest.raises(TryAgainError, match=r"partition 1 .*computed a second time"):
        executor.gather(submit_blocks(executor, plan, parts, digests, recipe, None))
