"""Scores in files: what reads them back, and how they are matched to documents."""

import gzip
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LinearRegression

import dranking as dr
from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.parquet.dataset import ParquetDataset
from dranking.errors import DataError, UsageError
from dranking.ingestion.dask_collections import as_dataset
from dranking.metrics.prediction_files import write_trec_run
from dranking.metrics.scores.read_scores import read_scores
from dranking.metrics.scores.score_table import ScoreTable

SIZES = (4, 1, 6, 3)


def dataset_of(doc_ids=True, qid=("b", "a", "d", "c"), seed=0):
    rng = np.random.default_rng(seed)
    n = sum(SIZES)
    return dr.from_arrays(
        rng.normal(size=(n, 2)).astype(np.float32),
        rng.integers(0, 3, n),
        np.repeat(qid, SIZES),
        doc_ids=[f"d{i % 7}" for i in range(n)] if doc_ids else None,
        feature_names=["x", "y"],
        max_documents=5,
    )


MODEL = dr.LinearModel(feature_names=("y", "x"), weights=(2.0, -1.0))


def rows_of(dataset, scores):
    """One row per document: query, document, score."""
    queries, documents = [], []
    for b in range(dataset.n_blocks):
        block = dataset.block(b)
        queries += np.repeat(block.query_ids.to_pylist(), np.diff(block.query_ptr)).tolist()
        documents += [None] * block.n_documents if not block.doc_ids else block.doc_ids.to_pylist()
    return pd.DataFrame({"qid": queries, "docid": documents, "score": scores})


def write_directory(rows, dataset, folder):
    dr.write_scores(MODEL, dataset, folder / "scores")
    return folder / "scores"


def write_run(rows, dataset, folder):
    write_trec_run(folder / "scores.run", MODEL.predict_blocks(dataset))
    return folder / "scores.run"


def write_gzip(rows, dataset, folder):
    plain = write_run(rows, dataset, folder)
    (folder / "run.gz").write_bytes(gzip.compress(plain.read_bytes()))
    return folder / "run.gz"


def write_csv(rows, dataset, folder):
    rows.sample(frac=1, random_state=0).to_csv(folder / "scores.csv", index=False)
    return folder / "scores.csv"


def write_parquet(rows, dataset, folder):
    rows.sample(frac=1, random_state=1).to_parquet(folder / "scores.parquet")
    return folder / "scores.parquet"


FORMS = [write_directory, write_run, write_gzip, write_csv, write_parquet]


@pytest.mark.parametrize("write", FORMS)
def test_every_form_measures_as_the_model_itself(write, tmp_path):
    dataset = dataset_of()
    expected = dr.evaluate(MODEL, dataset)
    rows = rows_of(dataset, MODEL.predict(dataset))
    scores = dr.read_scores(write(rows, dataset, tmp_path))
    assert dr.evaluate(scores, dataset).metrics == expected.metrics
    some = dataset.select_queries(np.array([True, False, True, True]))
    assert dr.evaluate(scores, some).metrics == dr.evaluate(MODEL, some).metrics


@pytest.mark.parametrize("write", [write_directory, write_run])
@pytest.mark.parametrize("qid", [("b", "a", "d", "c"), (40, 3, 7, 11)])
def test_documents_without_ids(write, qid, tmp_path):
    dataset = dataset_of(doc_ids=False, qid=qid)
    scores = dr.read_scores(write(None, dataset, tmp_path))
    assert dr.evaluate(scores, dataset).metrics == dr.evaluate(MODEL, dataset).metrics


def test_the_directory_is_what_other_tools_read(tmp_path, monkeypatch):
    monkeypatch.setattr("dranking.models.write_scores.BLOCKS_PER_PART", 2)
    dataset = dataset_of()
    assert dataset.n_blocks > 2
    expected = MODEL.predict(dataset)
    assert dr.write_scores(MODEL, dataset, tmp_path / "s") == len(expected)
    names = sorted(path.name for path in (tmp_path / "s").iterdir())
    assert names == ["_SUCCESS", "part-000000.parquet", "part-000001.parquet"]
    found = pd.read_parquet(tmp_path / "s")
    rows = rows_of(dataset, expected)
    pd.testing.assert_frame_equal(found[["qid", "docid", "score"]], rows, check_dtype=False)
    # Ranks order by score, the largest first; there are no ties here.
    ranks = rows.groupby("qid", sort=False).score.rank(ascending=False)
    np.testing.assert_array_equal(found["rank"], ranks)
    dask = pytest.importorskip("dask.dataframe")
    assert len(dask.read_parquet(tmp_path / "s")) == len(rows)


def test_writing_again_needs_overwrite_and_replaces_scores_alone(tmp_path):
    dataset, place = dataset_of(), tmp_path / "s"
    dr.write_scores(MODEL, dataset, place)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(UsageError, match="--overwrite"):
        dr.write_scores(MODEL, dataset, place)
    dr.write_scores(MODEL, dataset, place, overwrite=True)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    dr.write_dataset([dataset.block(0)], tmp_path / "data")
    with pytest.raises(UsageError, match="holds a dranking-dataset"):
        dr.write_scores(MODEL, dataset, tmp_path / "data", overwrite=True)


def test_fitted_rankers_are_written_as_their_models_and_others_are_refused(tmp_path):
    dataset = dataset_of()
    fitted = dr.RankRLS().fit(dataset)
    for name, model in (("ranker", fitted), ("model", fitted.to_model())):
        dr.write_scores(model, dataset, tmp_path / name)
    ranker, model = (pq.read_table(tmp_path / name) for name in ("ranker", "model"))
    assert ranker.equals(model)
    with pytest.raises(UsageError, match=r"not a LinearRegression.*to_parquet"):
        dr.write_scores(LinearRegression(), dataset, tmp_path / "other")
    with pytest.raises(UsageError, match=r"not a DataFrame.*from_table"):
        dr.write_scores(fitted, rows_with_features(), tmp_path / "other")


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    monkeypatch.setattr("dranking.models.write_scores.BLOCKS_PER_PART", 1)
    dr.write_scores(MODEL, dataset_of(), tmp_path / "s")
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()}
    frame = rows_with_features()
    frame.loc[47, "y"] = np.nan
    frame.to_parquet(tmp_path / "holed.parquet")
    holed = ParquetDataset(tmp_path / "holed.parquet", max_documents=12)
    with pytest.raises(DataError, match=r"row 47, column 'y' \(query 7\)"):
        dr.write_scores(MODEL, holed, tmp_path / "s", overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["holed.parquet", "s"]


def test_the_same_bytes_on_workers_and_in_an_object_store(client, tmp_path):
    from upath import UPath

    dataset = dr.ingest(pa.Table.from_pandas(rows_with_features()), tmp_path / "d")[0]
    dr.write_scores(MODEL, dataset, tmp_path / "threads", executor="threads")
    dr.write_scores(MODEL, dataset, tmp_path / "workers", executor=client)
    contents = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("threads", "workers")
    ]
    assert contents[0] == contents[1]
    url = f"memory://{tmp_path.name}/scores"
    dr.write_scores(MODEL, dataset, url, executor="threads")
    parts = [p for p in UPath(url).iterdir() if p.name.endswith(".parquet")]
    assert [p.read_bytes() for p in parts] == [contents[0]["part-000000.parquet"]]
    found = dr.evaluate(dr.read_scores(url), dataset)
    assert found.metrics == dr.evaluate(MODEL, dataset, executor="threads").metrics


def test_scores_of_a_collection_are_written_where_its_blocks_lie(client, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    frame = rows_with_features()
    placed = as_dataset(dd.from_pandas(frame, npartitions=3), executor=client)
    dr.write_scores(MODEL, placed, tmp_path / "placed", executor=client)
    dr.write_scores(MODEL, dr.from_table(frame), tmp_path / "here", executor="threads")
    found, expected = (pd.read_parquet(tmp_path / name) for name in ("placed", "here"))
    pd.testing.assert_frame_equal(found, expected)


def rows_with_features():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"qid": np.repeat(np.arange(8), 6), "relevance": rng.integers(0, 3, 48)})
    return frame.assign(x=rng.normal(size=48), y=rng.normal(size=48))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: (p / "part-000000.parquet").unlink(), "part-000000.*missing.*compute"),
        (
            lambda p: (p / "part-000000.parquet").write_bytes(b"PAR1 and no more"),
            "its checksum differs",
        ),
        (
            lambda p: (p / "_SUCCESS").write_text(
                (p / "_SUCCESS").read_text().replace("part-000000", "part-000009")
            ),
            "its 'digest' is another",
        ),
        (
            lambda p: (p / "_SUCCESS").write_text(
                json.dumps({"format": "dranking-scores", "schema_version": 1, "parts": []})
            ),
            "'digest' is missing",
        ),
        (lambda p: (p / "_SUCCESS").unlink(), "no directory of scores"),
    ],
)
def test_damage_is_found(damage, message, tmp_path):
    dr.write_scores(MODEL, dataset_of(), tmp_path / "s")
    damage(tmp_path / "s")
    with pytest.raises(DataError, match=message):
        dr.read_scores(tmp_path / "s")


def rows_changed(change):
    dataset = dataset_of()
    rows = rows_of(dataset, np.arange(float(dataset.n_documents)))
    return dataset, change(rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r[r.qid != "d"], "no score for query d"),
        (
            lambda r: r.drop(index=2),
            "no score for document d2 of query b.* a run of any depth",
        ),
        (lambda r: pd.concat([r, r[3:4]]), "document d3 of query b has more than one score"),
        (
            lambda r: pd.concat([r, r[:1].assign(docid="other")]),
            "the data has no document other of query b.* a run of any depth",
        ),
        (lambda r: r.assign(score=np.nan), "is NaN"),
        (lambda r: r.drop(columns="score"), "there is no column 'score'.*qid, docid"),
        (lambda r: r.drop(columns="docid").drop(index=2), "3 scores for query b, which has 4 doc"),
        (lambda r: r.assign(qid=None), "row 0: qid is missing"),
    ],
)
def test_scores_that_do_not_fit_the_data(change, message):
    dataset, rows = rows_changed(change)
    with pytest.raises(DataError, match=message):
        dr.evaluate(rows, dataset)


def test_scores_against_plain_dictionaries():
    """Any order of rows and any extra query; a dictionary is the oracle."""
    dataset = dataset_of(seed=5)
    rng = np.random.default_rng(9)
    rows = rows_of(dataset, rng.normal(size=dataset.n_documents))
    known = {(q, d): s for q, d, s in rows.itertuples(index=False)}
    extra = pd.DataFrame({"qid": ["zz"], "docid": ["d0"], "score": [9.0]})
    table = ScoreTable.from_table(pd.concat([extra, rows]).sample(frac=1, random_state=2))
    for b in range(dataset.n_blocks):
        block = dataset.block(b)
        queries = np.repeat(block.query_ids.to_pylist(), np.diff(block.query_ptr))
        expected = [known[q, d] for q, d in zip(queries, block.doc_ids.to_pylist(), strict=True)]
        np.testing.assert_array_equal(table.of_block(block), expected)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.run", "q1 Q0 d1 1 0.5 tag\nq1 Q0 d2 2 tag\n", r"a\.run:2: no line of a TREC run \(5 f"),
        ("a.run", "q1 Q0 d1 1 high tag\n", r"a\.run:1: .*could not convert"),
        ("a.run", "\n\n", "there are no rows"),
        ("a.run", b"\xc3\x28\x00", "neither parquet nor text"),
        ("a.csv", "qid,docid,score\n1,2,x\n", "cannot be read as csv"),
        ("a.csv", "query,score\n1,2\n", "no column 'qid'"),
        ("a.parquet", b"PAR1 and no more", "cannot be read as parquet"),
    ],
)
def test_files_that_hold_no_scores(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=message):
        dr.read_scores(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        dr.read_scores(Path(tmp_path, "none.csv"))


def test_ids_with_zeros_in_front_stay_text(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("qid\tdocid\tscore\n007\t01\t1.5\n007\t1\t2.5\n")
    dataset = dr.from_arrays(np.eye(2), [0, 1], ["007", "007"], doc_ids=["1", "01"])
    np.testing.assert_array_equal(dr.read_scores(path).of_block(dataset.block(0)), [2.5, 1.5])
    pq.write_table(
        pa.table({"session": ["007"] * 2, "item": ["01", "1"], "score": [1, 2]}),
        tmp_path / "a.parquet",
    )
    named = dr.read_scores(tmp_path / "a.parquet", qid="session", docid="item")
    np.testing.assert_array_equal(named.of_block(dataset.block(0)), [2, 1])


class MadeDataset(Dataset):
    """Blocks of random features that are made when they are read."""

    feature_names = ("x", "y")

    def __init__(self, n_blocks):
        self.blocks = (BlockInfo(8_000, 80, 16_000, 8_000),) * n_blocks

    def block(self, index, columns=None):
        features = np.random.default_rng(index).normal(size=(8_000, 2)).astype(np.float32)
        return QueryBlock(
            features=features if columns is None else features[:, columns],
            relevance=np.full(8_000, np.nan),
            query_ptr=np.arange(0, 8_001, 100),
            query_ids=pa.array(np.arange(80) + 80 * index),
        )


@pytest.mark.slow
def test_memory_of_the_driver_does_not_grow_with_documents(client, tmp_path):
    def peak(n_blocks):
        tracemalloc.start()
        try:
            output = tmp_path / str(n_blocks)
            n_documents = dr.write_scores(MODEL, MadeDataset(n_blocks), output, executor=client)
            return tracemalloc.get_traced_memory()[1], n_documents
        finally:
            tracemalloc.stop()

    peak(16)  # imports, and the first messages
    (small, _), (large, n_documents) = peak(17), peak(80)
    assert n_documents == 80 * 8_000
    assert len(list((tmp_path / "80").glob("part-*"))) == 5
    assert large - small < 2**20  # the scores alone would be 4 MB more


def test_a_compressed_run_that_is_cut_is_an_error(tmp_path):
    file = tmp_path / "run.txt.gz"
    file.write_bytes(gzip.compress(b"1 Q0 d1 1 0.5 x\n" * 1_000)[:-20])
    with pytest.raises(DataError, match="cannot be decompressed"):
        read_scores(file)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "session,prediction\n1,0.5\n",
            r"--qid-column and --docid-column \(read_scores.*--score-column",
        ),
        ("session,score\n1,0.5\n", r"--qid-column and --docid-column \(read_scores\(path, qid, d"),
        (
            "qid,prediction\n1,0.5\n",
            r"'prediction'\. Name the column of scores with --score-column \(read_scores",
        ),
    ],
)
def test_other_names_of_columns_are_told_with_the_options(text, advice, tmp_path):
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(DataError, match=advice):
        dr.read_scores(tmp_path / "own.csv")


def test_scores_alone_on_each_line_are_told_how_to_pass(tmp_path):
    """LightGBM and XGBoost write their predictions so."""
    np.savetxt(tmp_path / "predictions.txt", [0.5, 0.25])
    told = r"predictions\.txt:1: a line of one field names no query.*numpy\.loadtxt\('.*\.txt'\)"
    with pytest.raises(DataError, match=told) as error:
        read_scores(tmp_path / "predictions.txt")
    assert "TREC" not in str(error.value)
    data = dr.from_arrays(np.ones((2, 1)), [0, 1], [7, 7])
    assert dr.evaluate(np.loadtxt(tmp_path / "predictions.txt"), data, ["mrr"]).metrics == {
        "mrr": 0.5
    }
