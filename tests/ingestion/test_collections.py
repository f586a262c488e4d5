"""Dask collections as sources of ingest: rows stay on the workers that compute them."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dranking as dr
from dranking.errors import DataError, UsageError

RNG = np.random.default_rng(4)
N = 90
FRAME = pd.DataFrame(
    {
        "query": RNG.integers(0, 9, N),
        "doc": [f"d{n}" for n in range(N)],
        "a": RNG.normal(size=N),
        "label": RNG.integers(0, 3, N).astype(np.float64),
        "b": RNG.integers(0, 5, N),
    }
)
COLUMNS = dr.Columns(qid="query", docid="doc", relevance="label")


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads"):
        yield


@pytest.mark.parametrize("n_partitions", [1, 4, 13])
def test_a_frame_is_stored_as_the_table_in_memory(tmp_path, n_partitions):
    """Queries lie in several partitions; some partitions are empty."""
    frame = dd.from_pandas(FRAME, npartitions=n_partitions, sort=False)
    frame = frame.map_partitions(lambda part: part[part["b"] != 1] if len(part) < 30 else part)
    table = frame.compute()
    one, facts = dr.ingest(frame, tmp_path / "a", columns=COLUMNS)
    two, expected = dr.ingest(table, tmp_path / "b", columns=COLUMNS)
    assert one.fingerprint == two.fingerprint
    assert facts[:3] == expected[:3]  # the files in scratch are others
    assert one.roles == two.roles
    gone = frame[frame["b"] > 4]
    with pytest.raises(DataError, match="the dask collection has no rows"):
        dr.ingest(gone, tmp_path / "c", columns=COLUMNS)
    assert not (tmp_path / "c").exists()


def test_missing_values_of_a_frame(tmp_path):
    frame = FRAME.assign(a=FRAME["a"].where(FRAME["b"] != 2))
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    with pytest.raises(DataError, match=r"column 'a'.*missing"):
        dr.ingest(lazy, tmp_path / "a", columns=COLUMNS)
    stored, _ = dr.ingest(
        lazy, tmp_path / "a", columns=COLUMNS, rows=dr.RowRules(null="mean"), normalize="standard"
    )
    filled = frame["a"].astype(np.float32).astype(np.float64)
    filled = filled.fillna(np.float32(filled.mean()))
    expected = np.sort((filled - filled.mean()) / filled.std(ddof=0))
    found = np.concatenate([stored.block(i).features[:, 0] for i in range(stored.n_blocks)])
    np.testing.assert_allclose(np.sort(found), expected, rtol=1e-4, atol=1e-5)


def test_arrays_are_stored_as_in_memory(tmp_path):
    order = np.argsort(FRAME["query"], kind="stable")
    X = FRAME[["a", "b"]].to_numpy()[order]
    y, qid = FRAME["label"].to_numpy()[order], FRAME["query"].to_numpy()[order]
    known = dr.from_arrays(X, y, qid)
    chunks = [da.from_array(X, chunks=(23, 1)), da.from_array(y, chunks=23)]
    stored, _ = dr.ingest((*chunks, da.from_array(qid, chunks=40)), tmp_path / "a")
    assert stored.fingerprint == known.fingerprint
    again, _ = dr.ingest(dr.to_dask_array(stored), tmp_path / "b")
    assert again.fingerprint == known.fingerprint
    with pytest.raises(UsageError, match="qid: arrays have no columns"):
        dr.ingest((*chunks, qid), tmp_path / "c", columns=dr.Columns(qid="query"))
    rows = chunks[0].rechunk((23, 2)).map_blocks(sparse.csr_array)
    with pytest.raises(UsageError, match="the chunks are sparse"):
        dr.ingest((rows, chunks[1], qid), tmp_path / "c")
    with pytest.raises(UsageError, match="n_features: only for text, but the source is a table"):
        dr.ingest((*chunks, qid), tmp_path / "c", rows=dr.RowRules(n_features=3))


def test_labels_of_other_rows_are_never_stored(tmp_path):
    """The source orders its rows anew in every computation."""
    frame = FRAME.assign(label=3 * FRAME["b"])[["query", "label", "b"]]
    lazy = dd.from_pandas(frame, npartitions=4, sort=False).map_partitions(
        lambda part: part.sample(frac=1, random_state=np.random.default_rng())
    )
    stored, _ = dr.ingest(
        lazy.sort_values("query"), tmp_path / "a", columns=dr.Columns("query", "label")
    )
    assert stored.n_documents == N
    for index in range(stored.n_blocks):
        block = stored.block(index)
        np.testing.assert_array_equal(block.relevance, 3 * block.features[:, 0])


def test_partitions_are_stored_by_the_workers_of_a_cluster(tmp_path, client):
    """What reaches the driver is one line per file and query, whatever the partitions hold."""
    frame = dd.from_pandas(FRAME, npartitions=5, sort=False)
    here, _ = dr.ingest(FRAME, tmp_path / "a", columns=COLUMNS)
    there, _ = dr.ingest(frame, tmp_path / "b", columns=COLUMNS, executor=client)
    assert there.fingerprint == here.fingerprint


def test_logs_and_arrow_files_are_read_by_the_workers_of_a_cluster(tmp_path, client):
    FRAME.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    FRAME.to_feather(tmp_path / "log.feather")
    judgements = {str(query): dict(zip(rows.doc, rows.label, strict=True))
                  for query, rows in FRAME.groupby("query")}  # fmt: skip
    columns = dr.Columns(qid="query", docid="doc", relevance="judged", exclude=["label"])
    for source in ("log.jsonl", "log.feather"):
        found = [
            dr.ingest(
                tmp_path / source,
                tmp_path / "d",
                columns=columns,
                rows=dr.RowRules(judgements=judgements),
                executor=executor,
                overwrite=True,
            )[0].fingerprint
            for executor in (client, None)
        ]
        assert found[0] == found[1]
