"""Tables of other libraries, through the Arrow C stream interface."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.data.tables.any_table import as_stream
from dranking.errors import DataError, UsageError


def ranking_frame(n_queries=6, size=5, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"qid": [f"q{i}" for i in np.repeat(np.arange(n_queries), size)]})
    for name in ("a", "b", "c"):
        frame[name] = rng.normal(size=len(frame)).astype(np.float32)
    frame["relevance"] = np.round(np.clip(2 * frame.a + frame.c, 0, 3)).astype(int)
    return frame


FRAME = ranking_frame()


def polars_frame(frame, _):
    return pytest.importorskip("polars").from_pandas(frame)


def lazy_frame(frame, folder):
    frame.to_parquet(folder / "lazy.parquet")
    return pytest.importorskip("polars").scan_parquet(folder / "lazy.parquet")


def duckdb_relation(frame, _):
    duckdb = pytest.importorskip("duckdb")
    return (
        duckdb.connect()
        .from_df(frame)
        .select("*, a::DECIMAL(38, 20)::FLOAT AS d")
        .select(", ".join(frame.columns))
    )


def partitioned_files(frame, folder):
    for part, rows in enumerate((frame[:7], frame[7:])):
        rows.to_parquet(folder / f"{part}.parquet")
    return pyarrow.dataset.dataset([str(folder / f"{part}.parquet") for part in range(2)])


class OnlyAStream:
    """An object that has the interface's method and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


TABLES = {
    "pandas": lambda frame, _: frame,
    "arrow table": lambda frame, _: pa.Table.from_pandas(frame),
    "record batch": lambda frame, _: pa.RecordBatch.from_pandas(frame),
    "reader": lambda frame, _: pa.Table.from_pandas(frame).to_reader(max_chunksize=4),
    "arrow data set": partitioned_files,
    "scanner": lambda frame, folder: partitioned_files(frame, folder).scanner(),
    "stream": lambda frame, _: OnlyAStream(pa.Table.from_pandas(frame)),
    "polars": polars_frame,
    "lazy": lazy_frame,
    "duckdb": duckdb_relation,
}


@pytest.fixture(scope="module")
def ranker():
    return dr.RankRLS().fit(FRAME[["a", "b", "c"]], FRAME.relevance, qid=FRAME.qid)


@pytest.fixture(params=TABLES)
def make(request, tmp_path):
    """Makes the table anew, since a reader can be read once."""
    return lambda frame=FRAME: TABLES[request.param](frame, tmp_path)


def assert_holds_the_frame(dataset):
    assert dataset.feature_names == ("a", "b", "c")
    [block] = [dataset.block(b) for b in range(dataset.n_blocks)]
    np.testing.assert_array_equal(block.features, FRAME[["a", "b", "c"]])
    np.testing.assert_array_equal(block.relevance, FRAME.relevance)
    assert block.query_ids.to_pylist() == list(dict.fromkeys(FRAME.qid))


def test_every_table_is_accepted_wherever_a_table_is(make, ranker, tmp_path):
    assert_holds_the_frame(dr.from_table(make()))
    assert_holds_the_frame(dr.open_dataset(make()))
    stored, _ = dr.ingest(make(), tmp_path / "stored")
    assert_holds_the_frame(stored)
    expected = ranker.predict(FRAME[["a", "b", "c"]].to_numpy())
    np.testing.assert_array_equal(dr.RankRLS().fit(make()).coef_, ranker.coef_)
    np.testing.assert_array_equal(ranker.predict(make()), expected)
    np.testing.assert_array_equal(ranker.to_model().predict(make()), expected)
    assert sum(batch.num_rows for batch in as_stream(make()).batches) == len(FRAME)


def test_columns_are_named_in_fit(make, ranker):
    table = make(FRAME.rename(columns={"qid": "query", "relevance": "label"}))
    np.testing.assert_array_equal(dr.RankRLS().fit(table, "label", qid="query").coef_, ranker.coef_)


def test_features_in_a_table_and_labels_in_columns(ranker):
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(FRAME)
    found = dr.RankRLS().fit(frame[["a", "b", "c"]], frame["relevance"], qid=frame["qid"])
    np.testing.assert_array_equal(found.coef_, ranker.coef_)


def test_scores_read_no_other_column(make, ranker):
    """A column that cannot be read is no hindrance, nor are further columns of one name."""
    scores = ranker.predict(FRAME[["a", "b", "c"]])
    mixed = FRAME.assign(note=[1, "text"] * (len(FRAME) // 2))
    twice = mixed.set_axis([*FRAME.columns[:-1], "note", "note"], axis=1)
    for frame in (mixed, twice):
        np.testing.assert_array_equal(ranker.predict(frame), scores)
    arrow = pa.Table.from_pandas(FRAME)
    of_one_name = pa.table([*arrow.columns, arrow["a"]], [*arrow.column_names, "qid"])
    np.testing.assert_array_equal(ranker.predict(of_one_name), scores)
    np.testing.assert_array_equal(ranker.predict(make()), scores)


def test_a_needed_column_that_is_there_twice_is_an_error(ranker):
    twice = FRAME.set_axis(["qid", "a", "b", "c", "c"], axis=1)
    arrow = pa.table(
        [FRAME[name].to_numpy() for name in ("a", "b", "c", "c")], ["a", "b", "c", "c"]
    )
    for table in (twice, arrow, arrow.to_batches()[0], arrow.to_reader()):
        with pytest.raises(DataError, match="columns occur more than once: 'c'"):
            ranker.predict(table)


def test_types_of_other_libraries():
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    enum = polars.Enum(["x", "y"])
    frame = polars.DataFrame(
        {"qid": ["x", "x", "y"], "relevance": [0, 1, None], "seen": [True, False, True]}
    ).with_columns(polars.col("qid").cast(enum))
    block = dr.from_table(frame).block(0)
    assert block.query_ids.to_pylist() == ["x", "y"]
    np.testing.assert_array_equal(block.features, [[1], [0], [1]])
    np.testing.assert_array_equal(block.relevance, [0, 1, np.nan])
    relation = duckdb.connect().sql(
        "SELECT 7::UBIGINT AS qid, 1::TINYINT AS relevance, 0.25::DECIMAL(9, 4) AS price, "
        "3::HUGEINT AS clicks"
    )
    block = dr.from_table(relation).block(0)
    assert block.query_ids.to_pylist() == [7]
    np.testing.assert_array_equal(block.features, [[0.25, 3]])


def test_a_pyarrow_data_set_is_the_way_to_hive_folders_and_filters(tmp_path):
    """The form in which Delta Lake and Iceberg hand out their tables."""
    for date, rows in (("2026-11-01", FRAME[:10]), ("2026-11-02", FRAME[10:])):
        (tmp_path / f"date={date}").mkdir()
        pq.write_table(pa.Table.from_pandas(rows), tmp_path / f"date={date}" / "0.parquet")
    files = pyarrow.dataset.dataset(tmp_path, partitioning="hive")
    newest = files.scanner(filter=pyarrow.dataset.field("date") == "2026-11-02")
    dataset = dr.from_table(newest, dr.Columns(exclude=["date"]))
    assert dataset.n_documents == len(FRAME) - 10
    np.testing.assert_array_equal(dataset.block(0).features, FRAME[["a", "b", "c"]][10:])


@pytest.mark.parametrize("value", [np.ones((2, 2)), 5, None, [np.ones(2)], pd.Series([1.0])])
def test_what_is_no_data_is_refused_with_what_to_do(value):
    with pytest.raises(UsageError, match=r"neither a path.*from_arrays"):
        dr.open_dataset(value)
    with pytest.raises(UsageError, match="is not a table with columns"):
        dr.from_table(value)


def test_options_of_text_do_not_go_with_tables():
    with pytest.raises(UsageError, match="sparse: only for text"):
        dr.open_dataset(FRAME, sparse=True)


def test_a_stream_that_breaks_off():
    def batches():
        yield pa.RecordBatch.from_pandas(FRAME[:3], preserve_index=False)
        raise OSError("the connection was lost")

    schema = pa.Schema.from_pandas(FRAME, preserve_index=False)
    with pytest.raises(DataError, match=r"cannot be read .*connection was lost"):
        dr.from_table(pa.RecordBatchReader.from_batches(schema, batches()))


ROWS = pa.table({"qid": ["a", "a", "b", "b"], "relevance": [0, 1, 0, 1], "x": [1.0, 2.0, 3.0, 4.0]})
RUNS = pa.array([2, 4], pa.int32())


def replaced(**columns):
    return pa.table({**{name: ROWS[name] for name in ROWS.column_names}, **columns})


def in_polars(kind):
    polars = pytest.importorskip("polars")
    kinds = {"categorical": polars.Categorical, "enum": polars.Enum(["b", "a"])}
    return polars.from_arrow(ROWS).with_columns(polars.col("qid").cast(kinds[kind]))


ODD_TYPES = {
    "polars categorical": lambda: in_polars("categorical"),
    "polars enum": lambda: in_polars("enum"),
    "pandas categorical": lambda: ROWS.to_pandas().astype({"qid": "category"}),
    "dictionary of views": lambda: replaced(
        qid=pa.DictionaryArray.from_arrays([0, 0, 1, 1], pa.array(["a", "b"], pa.string_view()))
    ),
    "views": lambda: replaced(qid=ROWS["qid"].cast(pa.string_view())),
    "runs": lambda: replaced(
        qid=pa.RunEndEncodedArray.from_arrays(RUNS, pa.array(["a", "b"])),
        relevance=pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 5), pa.int32()), [0, 1] * 2),
    ),
}


@pytest.mark.parametrize("kind", ODD_TYPES)
def test_odd_types_are_read_in_memory_and_by_ingest_alike(kind, tmp_path):
    for read in (dr.from_table, lambda table: dr.ingest(table, tmp_path / "d")[0]):
        block = read(ODD_TYPES[kind]()).block(0)
        assert block.query_ids.to_pylist() == ["a", "b"]
        assert block.query_ptr.tolist() == [0, 2, 4]
        assert block.relevance.tolist() == [0, 1, 0, 1]
        assert block.features[:, 0].tolist() == [1, 2, 3, 4]


def broken_stream():
    def batches():
        yield ROWS.to_batches()[0]
        raise OSError("the line is dead")

    return pa.RecordBatchReader.from_batches(ROWS.schema, batches())


def duckdb_error():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("rows", ROWS)
    return connection.sql("select cast('x' || qid as int) as qid, relevance, x from rows")


def lazy_error():
    polars = pytest.importorskip("polars")
    return polars.from_arrow(ROWS).lazy().with_columns(polars.col("nothing"))


FAULTY = {
    "breaks off": (broken_stream, r"the RecordBatchReader cannot be read \(the line is dead\)"),
    "duckdb": (duckdb_error, r"the DuckDBPyRelation cannot be read \(Conversion Error: .*'xa'"),
    "lazy polars": (lazy_error, r"the LazyFrame cannot be read \(.*nothing"),
    "repeated in pandas": (
        lambda: pd.DataFrame(np.ones((2, 3)), columns=["qid", "qid", "relevance"]),
        "the table: columns occur more than once: 'qid'; rename",
    ),
    "repeated": (
        lambda: pa.table([[1], [2], [3]], ["qid", "qid", "relevance"]),
        "the table: columns occur more than once: 'qid'",
    ),
    "mixed": (
        lambda: pd.DataFrame({"qid": [1, "a"], "relevance": [0, 1], "x": [1, 2]}),
        "or mixes types",
    ),
    "union": (
        lambda: replaced(
            z=pa.UnionArray.from_sparse(pa.array([0] * 4, pa.int8()), [pa.array(range(4))])
        ),
        r"the table: 1 column\(s\) cannot be features: 'z' \(sparse_union",
    ),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_faulty_tables_are_told_in_memory_and_by_ingest_alike(fault, tmp_path):
    make, told = FAULTY[fault]
    for read in (dr.from_table, lambda table: dr.ingest(table, tmp_path / "d")):
        with pytest.raises(DataError, match=told):
            read(make())
    assert not (tmp_path / "d").exists()
