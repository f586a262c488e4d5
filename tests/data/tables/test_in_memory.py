"""Data in memory: every form of input gives the same blocks."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask.sizeof import sizeof
from scipy import sparse

import dranking as dr
from dranking.data.roles import Columns
from dranking.data.tables.in_memory import MemoryDataset, from_arrays, from_table
from dranking.errors import DataError, DataWarning, UsageError
from dranking.ingestion.ingest import ingest

RNG = np.random.default_rng(0)
SIZES = (3, 1, 5, 4, 2)
QID = np.repeat([11, 12, 13, 14, 15], SIZES)
X = RNG.integers(-3, 4, size=(15, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 15).astype(float)

FORMS = {
    "float32": X,
    "F-ordered": np.asfortranarray(X),
    "strided": np.repeat(X, 2, axis=0)[::2],
    "float64": X.astype(np.float64),
    "float16": X.astype(np.float16),
    "int8": X.astype(np.int8),
    "read-only": np.frombuffer(X.tobytes(), np.float32).reshape(X.shape),
    "lists": X.tolist(),
    "objects": X.astype(object),
    "masked": np.ma.masked_array(X, mask=False),
    "pandas": pd.DataFrame(X),
    "pandas nullable": pd.DataFrame(X).astype("Int64"),
    "arrow": pa.table({f"f{j + 1}": X[:, j] for j in range(4)}),
    "arrow batch": pa.record_batch({f"f{j + 1}": X[:, j] for j in range(4)}),
    "csr_matrix": sparse.csr_matrix(X),
    "csr_array": sparse.csr_array(X),
    "csc_array": sparse.csc_array(X),
    "coo_matrix": sparse.coo_matrix(X.astype(np.float64)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("max_documents", [1, 6, 100])
def test_all_forms_of_features(form, max_documents):
    dataset = from_arrays(FORMS[form], Y, QID, max_documents=max_documents)
    assert dataset.is_sparse == sparse.issparse(FORMS[form])
    assert dataset.in_memory
    assert (dataset.n_documents, dataset.n_queries, dataset.n_features) == (15, 5, 4)
    expected = {1: [3, 1, 5, 4, 2], 6: [4, 5, 6], 100: [15]}[max_documents]
    assert [block.n_documents for block in dataset.blocks] == expected
    start = 0
    for b in range(dataset.n_blocks):
        block = dataset.block(b)
        rows = slice(start, start := start + block.n_documents)
        dense = block.features.toarray() if block.is_sparse else block.features
        assert dense.dtype == np.float32
        np.testing.assert_array_equal(dense, X[rows])
        np.testing.assert_array_equal(block.relevance, Y[rows])
        ids = block.query_ids.to_numpy()
        np.testing.assert_array_equal(np.repeat(ids, np.diff(block.query_ptr)), QID[rows])
        some = dataset.block(b, np.array([2, 0])).features
        np.testing.assert_array_equal(
            some.toarray() if block.is_sparse else some, X[rows][:, [2, 0]]
        )


@pytest.mark.parametrize(
    "qid",
    [
        QID.astype(np.int16),
        QID.astype(np.uint64),
        QID.astype(float),
        QID.tolist(),
        QID.astype(str),
        QID.astype(object),
        pd.Series(QID),
        pd.Series(QID).astype("category"),
        pa.array(QID),
        pa.chunked_array([QID[:4], QID[4:]]),
        [f"q-{q}" for q in QID],
        [2**70 + int(q) for q in QID],
    ],
    ids=lambda q: f"{type(q).__name__}-{getattr(q, 'dtype', '')}",
)
def test_all_forms_of_query_ids(qid):
    block = from_arrays(X, Y, qid).block(0)
    np.testing.assert_array_equal(block.query_ptr, np.concatenate(([0], np.cumsum(SIZES))))
    firsts = [list(qid)[i] for i in block.query_ptr[:-1]]
    as_text = [str(getattr(f, "as_py", lambda f=f: f)()).removesuffix(".0") for f in firsts]
    assert [str(i) for i in block.query_ids.to_pylist()] == as_text


def test_repeated_entries_of_sparse_features_are_summed():
    twice = sparse.coo_array(([1.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    block = from_arrays(twice, [0, 1], [1, 1]).block(0)
    np.testing.assert_array_equal(block.features.toarray(), [[0, 3], [5, 0]])
    assert block.features.has_sorted_indices
    assert block.info.n_values == 2
    assert twice.nnz == 3


def test_float32_is_used_in_place_and_not_writeable():
    dataset = from_arrays(X, Y, QID, max_documents=5)
    features = dataset.block(1).features
    assert np.shares_memory(features, X)
    assert not features.flags.writeable
    assert X.flags.writeable


def test_what_is_missing_is_unlabelled():
    labels = [1.0, None, 2.0, *[0.0] * 12]
    for y in (labels, pd.Series(labels), pa.array(labels), np.ma.masked_equal(Y, 2)):
        dataset = from_arrays(X, y, QID)
        expected = (Y == 2).sum() if isinstance(y, np.ma.MaskedArray) else 1
        assert dataset.n_unlabelled == expected
    assert from_arrays(X, None, QID).n_unlabelled == 15


def test_weights_and_document_ids():
    block = from_arrays(
        X, Y, QID, query_weights=[1, 2, 3, 0, 0.5], doc_ids=[f"d{i}" for i in range(15)]
    ).block(0)
    np.testing.assert_array_equal(block.weights, [1, 2, 3, 0, 0.5])
    assert block.doc_ids.to_pylist()[-1] == "d14"
    with pytest.raises(DataError, match="query_weights has 4 entries for 5 queries"):
        from_arrays(X, Y, QID, query_weights=[1, 2, 3, 4])
    with pytest.raises(DataError, match=r"query 13: its weight is -1\.0"):
        from_arrays(X, Y, QID, query_weights=[1, 2, -1, 4, 5])
    for weight in (1e51, np.inf, np.nan):
        with pytest.raises(DataError, match=r"query weights are numbers from 0 to 1e\+50"):
            from_arrays(X, Y, QID, query_weights=[1, 2, weight, 4, 5])


def test_names():
    assert from_arrays(X, Y, QID).feature_names == ("f1", "f2", "f3", "f4")
    assert from_arrays(X, Y, QID, feature_names=list("abcd")).feature_names == tuple("abcd")
    assert from_arrays(pd.DataFrame(X, columns=list("abcd")), Y, QID).feature_names == tuple("abcd")
    with pytest.raises(DataError, match="feature_names has 3 entries for 4 columns"):
        from_arrays(X, Y, QID, feature_names=list("abc"))
    with pytest.raises(DataError, match="more than once: a"):
        from_arrays(X, Y, QID, feature_names=list("abca"))


@pytest.mark.parametrize("form", ["float64", "pandas", "csr_array"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"row 9, column 'f3' \(query 14\): the value is missing.*; say with"),
        (-np.inf, r"row 9, column 'f3' \(query 14\): the value is infinite.*; limit or"),
        (
            1e300,
            r"row 9, column 'f3' \(query 14\): the value is 1e\+300, beyond float32.*; limit or",
        ),
    ],
)
def test_values_that_cannot_be(form, value, message):
    bad = X.astype(np.float64)
    bad[9, 2] = value
    data = {
        "float64": bad,
        "pandas": pd.DataFrame(bad, columns=["f1", "f2", "f3", "f4"]),
        "csr_array": sparse.csr_array(bad),
    }[form]
    with pytest.raises(DataError, match=message):
        from_arrays(data, Y, QID, max_documents=4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"qid": None}, UsageError, "qid is missing"),
        ({"qid": QID[:-1]}, DataError, "qid has 14 entries for 15 rows"),
        ({"qid": QID + 0.5}, DataError, r"row 0: qid is \d+\.5; ids are"),
        ({"qid": X}, DataError, r"qid has shape \(15, 4\)"),
        ({"qid": [None, *QID[1:].tolist()]}, DataError, "row 0: qid is missing"),
        ({"y": Y[:-1]}, DataError, "y has 14 entries for 15 rows"),
        ({"y": np.where(Y > 1, np.inf, Y)}, DataError, "relevance is infinite"),
        ({"y": np.where(Y > 1, 2e50, Y)}, DataError, r"row \d+: relevance is 2e\+50; .*1e\+50"),
        ({"y": np.where(Y > 1, -1e154, Y)}, DataError, r"row \d+: relevance is -1e\+154"),
        ({"y": ["good"] * 15}, DataError, r"y is of type string.*map\("),
        ({"X": X[0]}, DataError, r"X has shape \(4,\)"),
        ({"X": sparse.coo_array(X[0])}, DataError, r"X has shape \(4,\)"),
        ({"X": [[1, 2], [3]]}, DataError, "the rows of X differ in length"),
        ({"X": [["a", 1]] * 15}, DataError, "X is of type <U"),
        ({"X": [[None, object()]] * 15}, DataError, "an entry that is no number"),
        ({"X": sparse.csr_array(X) * 1j}, DataError, "X is of type complex"),
        ({"X": pd.DataFrame(X[:, :2], columns=["a", "a"])}, DataError, "more than once: 'a';"),
        ({"X": pd.DataFrame({"a": [1, "x"] * 7 + [2]})}, DataError, "mixes types"),
        ({"X": pd.DataFrame({"a": pd.Categorical(QID)})}, DataError, r"'a' \(dictionary<"),
        ({"X": pd.Series(QID)}, DataError, r"X has shape \(15,\)"),
        ({"doc_ids": [1, 2]}, DataError, "doc_ids has 2 entries for 15 rows"),
        ({"doc_ids": [1, "a"] * 7 + [2]}, DataError, "doc_ids must be all integers or all"),
        ({"X": X[:0], "y": [], "qid": []}, DataError, "there are no documents"),
        ({"X": X.astype(str)}, DataError, "X is of type <U"),
        ({"X": X + 1j}, DataError, "X is of type complex64"),
        (
            {"X": pd.DataFrame({"a": ["x"] * 15, "b": Y, "c": [pd.Timestamp(0)] * 15})},
            DataError,
            r"2 column\(s\) of X cannot be features: 'a' \(.*string\), 'c' \(timestamp.*\)",
        ),
        ({"X": pd.DataFrame({"qid": QID})}, UsageError, "X has a column 'qid'"),
    ],
)
def test_wrong_arrays(arguments, error, message):
    with pytest.raises(error, match=message):
        from_arrays(**{"X": X, "y": Y, "qid": QID, **arguments})


def test_a_role_in_the_index_of_a_frame_is_named(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(query_id=QID, item=range(15), relevance=Y)
    columns = Columns(qid="query_id", docid="item")
    indexed = frame.set_index(["query_id", "item"])
    for read in (from_table, lambda *given: ingest(given[0], tmp_path / "d", columns=given[1])):
        with pytest.raises(
            DataError, match=r"index of the table has 'query_id', 'item'.*reset_index\(\)"
        ):
            read(indexed, columns)
    kept = frame.set_index("query_id", drop=False)
    assert from_table(kept, columns).feature_names == ("a", "b", "c", "d")


@pytest.mark.parametrize("form", ["float32", "pandas", "arrow", "csr_array", "table"])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_lie_apart_are_brought_together(form, seed):
    """Queries come by first appearance, and the rows of each in the order given."""
    rng = np.random.default_rng(seed)
    qid, numbers = rng.permutation(QID), np.arange(15)
    order = [row for query in dict.fromkeys(qid.tolist()) for row in numbers if qid[row] == query]
    apart = [q for q in set(qid.tolist()) if np.ptp(numbers[qid == q]) >= (qid == q).sum()]
    n_documents = int(np.isin(qid, apart).sum())
    said = rf"the rows of {len(apart)} queries \({n_documents} documents\) lay apart"
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame = frame.assign(relevance=Y, qid=qid, docid=numbers)

    def made():
        if form == "table":
            return from_table(frame, max_documents=6)
        return from_arrays(FORMS[form], Y, qid, doc_ids=numbers, max_documents=6)

    with pytest.warns(DataWarning, match=said):
        data = made()
    blocks = list(data.read_blocks())
    dense = [b.features.toarray() if b.is_sparse else b.features for b in blocks]
    np.testing.assert_array_equal(np.concatenate(dense), X[order])
    np.testing.assert_array_equal(np.concatenate([b.relevance for b in blocks]), Y[order])
    assert [i for b in blocks for i in b.doc_ids.to_pylist()] == order
    assert data.query_ids().to_pylist() == list(dict.fromkeys(qid.tolist()))
    sizes = [size for b in blocks for size in np.diff(b.query_ptr).tolist()]
    assert sizes == [int((qid == q).sum()) for q in dict.fromkeys(qid.tolist())]


def test_a_wrong_value_is_where_it_was_given():
    wrong, qid = X.copy(), QID[::-1] % 2
    wrong[4, 2] = np.nan
    for given in (wrong, pd.DataFrame(wrong), sparse.csr_array(wrong)):
        with (
            pytest.warns(DataWarning, match="lay apart"),
            pytest.raises(DataError, match=rf"row 4, column '\w+' \(query {qid[4]}\)"),
        ):
            from_arrays(given, Y, qid)


def test_scores_have_the_order_of_the_rows_given():
    rng = np.random.default_rng(4)
    rows = rng.permutation(15)
    names = tuple("abcd")
    weights = (1.0, 2.0, 0.5, -1.0)
    ranker = dr.RankRLS(normalize="rank").fit(X, Y, qid=QID)
    model = dr.LinearModel(feature_names=names, weights=weights)
    frame = pd.DataFrame(X[rows], columns=names)
    with pytest.warns(DataWarning, match="lay apart"):
        found = ranker.predict(X[rows], qid=QID[rows])
    np.testing.assert_array_equal(found, ranker.predict(X, qid=QID)[rows])
    with pytest.warns(DataWarning, match="lay apart"):
        found = dr.leave_query_out_scores(ranker, X[rows], Y[rows], qid=QID[rows])
    expected = dr.leave_query_out_scores(ranker, X, Y, qid=QID)[rows]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    with pytest.warns(DataWarning, match="lay apart"):
        found = ranker.to_model().explain(X[rows], qid=QID[rows]).scores
    np.testing.assert_array_equal(found, ranker.to_model().explain(X, qid=QID).scores[rows])
    with pytest.warns(DataWarning, match="lay apart"):
        assert ranker.score(X[rows], Y[rows], qid=QID[rows]) == ranker.score(X, Y, qid=QID)
    with pytest.warns(DataWarning, match="lay apart"):
        data = from_table(frame.assign(relevance=Y[rows], qid=QID[rows]), max_documents=6)
    scores = X[rows] @ np.array(weights)
    np.testing.assert_allclose(model.predict(data), scores)
    whole = from_arrays(X, Y, QID, feature_names=names)
    right = dr.evaluate(model, whole).metrics
    assert dr.evaluate(scores, data).metrics == pytest.approx(right)
    assert dr.evaluate(model, data).metrics == pytest.approx(right)
    filled = frame.assign(a=frame["a"].where(rows != 3), relevance=Y[rows], qid=QID[rows])
    with pytest.warns(DataWarning, match="lay apart"):
        data = from_table(filled, null="zero", max_documents=6)
    np.testing.assert_allclose(model.predict(data), scores - np.where(rows == 3, X[3, 0], 0.0))


def test_scores_whose_rows_are_not_known_are_refused(tmp_path):
    qid = QID[::-1] % 2
    model = dr.LinearModel(feature_names=("f1", "f2", "f3", "f4"), weights=(1.0, 2.0, 0.5, -1.0))
    with pytest.warns(DataWarning, match="lay apart"):
        data = from_arrays(X, Y, qid)
    with pytest.warns(DataWarning, match="lay apart"):
        known = from_arrays(X, Y, qid, doc_ids=np.arange(15))
    part = data.select_queries(np.array([True, False]))
    for use in (
        lambda: model.predict(part),
        lambda: dr.evaluate(np.ones(part.n_documents), part),
        lambda: dr.write_scores(model, data, tmp_path / "scores"),
    ):
        with pytest.raises(UsageError, match="rows of this data lay apart and were brought tog"):
            use()
    assert not (tmp_path / "scores").exists()
    dr.write_scores(model, known, tmp_path / "scores")
    written = pd.read_parquet(tmp_path / "scores").set_index("docid")["score"].sort_index()
    np.testing.assert_allclose(written, X @ np.array(model.weights), rtol=1e-6)


def test_a_flat_table():
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.insert(2, "qid", QID)
    frame["relevance"] = Y
    frame["docid"] = np.arange(15)
    frame["weight"] = QID / 11
    arrow = pa.Table.from_pandas(frame)
    nullable = frame.convert_dtypes().astype({"qid": "category"})
    indexed = frame.set_index(np.arange(15) * 2)
    for table in (frame, arrow, arrow.combine_chunks().to_batches()[0], nullable, indexed):
        dataset = from_table(table, max_documents=6)
        assert dataset.feature_names == ("a", "b", "c", "d")
        assert dataset.n_blocks == 3
        joined = np.concatenate([dataset.block(b).features for b in range(3)])
        np.testing.assert_array_equal(joined, X)
        np.testing.assert_array_equal(dataset.block(0).weights, [1, 12 / 11])
    assert from_table(frame, Columns(features=["d", "a"])).feature_names == ("d", "a")
    frame.loc[10, "b"] = np.nan
    with pytest.raises(DataError, match=r"row 10, column 'b' \(query 14\)"):
        from_table(frame, max_documents=6)
    with pytest.raises(UsageError, match="a list is not a table with columns"):
        from_table([[1]])
    frame.loc[[10, 14], ["b", "qid"]] = [[0.0, 14], [np.nan, 11]]
    frame.loc[14, "weight"] = 1.0
    with (
        pytest.warns(DataWarning, match=r"the rows of 1 query \(4 documents\) lay apart"),
        pytest.raises(DataError, match=r"row 14, column 'b' \(query 11\)"),
    ):
        from_table(frame, max_documents=6)


def test_blocks_that_do_not_fit_together():
    block = from_arrays(X, Y, QID).block(0)
    with pytest.raises(DataError, match=r"query 11 has 4 features.*3"):
        MemoryDataset([block], ("a", "b", "c"))
    with pytest.raises(DataError, match="there are no documents"):
        MemoryDataset([], ("a",))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_blocks_count_with_the_bytes_of_what_they_hold(is_sparse):
    """Dask measures the memory of workers and the cost of moving blocks by `sys.getsizeof`."""
    X = np.arange(1, 601, dtype=np.float32).reshape(100, 6)
    qid = np.repeat(np.arange(20), 5)
    features = sparse.csr_array(X) if is_sparse else X
    weights = np.full(20, 0.5)
    data = from_arrays(features, np.arange(100.0), qid, query_weights=weights)
    block = data.block(0)
    indices = 4 * 600 + 4 * 101 if is_sparse else 0
    arrays = 4 * 600 + indices + 8 * (100 + 21 + 20 + 20)  # relevance, ptr, ids, weights
    assert arrays <= sizeof(block) <= arrays + 500
    assert sizeof([block] * 3) >= 3 * arrays
