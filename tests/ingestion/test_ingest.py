"""Ingest stores every form of data as a dataset directory."""

import subprocess
import sys

import numpy as np
import pytest

import dranking as dr
from dranking.data.parquet.dataset import write_parquet
from dranking.engine.progress import reporting
from dranking.errors import DataError, UsageError
from dranking.ingestion.rows.finish_blocks import queries_without_pairs

TEXT = "2 qid:a 1:4 3:1\n0 qid:a 2:1 # docid = x\n-1 qid:b 1:2\n1 qid:b 1:6 3:2\n0 qid:c 3:7\n"
X = np.array([[4, 0, 1], [0, 1, 0], [2, 0, 0], [6, 0, 2], [0, 0, 7]], dtype=np.float32)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text(TEXT)
    return path


def values_of(dataset):
    return np.concatenate([dataset.block(b).features for b in range(dataset.n_blocks)])


def test_text_directory_and_parquet_hold_the_same(text, tmp_path):
    stored, facts = dr.ingest(text, tmp_path / "d.zarr")
    assert facts[:3] == (2, 0, 0)
    assert facts.n_scratch_bytes > 0
    write_parquet(dr.open_dataset(text), tmp_path / "p.parquet")
    again, _ = dr.ingest(tmp_path / "p.parquet", tmp_path / "e.zarr")
    third, _ = dr.ingest(tmp_path / "d.zarr", tmp_path / "f.zarr")
    sources = (text, tmp_path / "d.zarr", tmp_path / "p.parquet")
    for dataset in (stored, again, third, *map(dr.open_dataset, sources)):
        np.testing.assert_array_equal(values_of(dataset), X)
        assert dataset.feature_names == ("f1", "f2", "f3")
        assert dataset.query_ids().to_pylist() == ["a", "b", "c"]
        assert (dataset.n_documents, dataset.n_queries, dataset.n_unlabelled) == (5, 3, 1)
        np.testing.assert_array_equal(dataset.block(0).relevance, [2, 0, np.nan, 1, 0])
    assert stored.fingerprint == third.fingerprint


@pytest.mark.parametrize("normalize", ["query-minmax", "standard", "minmax"])
@pytest.mark.parametrize("form", ["text", "parquet", "directory"])
def test_scaled_from_every_form(text, tmp_path, normalize, form):
    source = {"text": text, "parquet": tmp_path / "p.parquet", "directory": tmp_path / "r.zarr"}[
        form
    ]
    if form == "parquet":
        write_parquet(dr.open_dataset(text), source)
    if form == "directory":
        dr.ingest(text, source)
    stored, _ = dr.ingest(source, tmp_path / "d.zarr", normalize=normalize)
    wide = X.astype(np.float64)
    if normalize == "standard":
        expected = (wide - wide.mean(axis=0)) / wide.std(axis=0)
    elif normalize == "minmax":
        expected = (wide - wide.min(axis=0)) / np.ptp(wide, axis=0)
    else:
        parts = [wide[:2], wide[2:4], wide[4:]]
        spreads = [np.where(np.ptp(p, axis=0) > 0, np.ptp(p, axis=0), 1.0) for p in parts]
        pairs = zip(parts, spreads, strict=True)
        expected = np.concatenate([(p - p.min(axis=0)) / s for p, s in pairs])
    np.testing.assert_allclose(values_of(stored), expected, rtol=1e-6, atol=1e-7)
    assert [t.kind for t in stored.transforms] == [normalize]
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize("normalize", ["none", "query-minmax", "standard"])
def test_a_model_ranks_every_form_alike(text, tmp_path, normalize):
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.integers(3)} qid:{row // 6} " + " ".join(f"{j}:{rng.normal()}" for j in (1, 2, 3))
        for row in range(60)
    ]
    text.write_text("\n".join(lines) + "\n")
    stored, _ = dr.ingest(text, tmp_path / "d.zarr", normalize=normalize)
    write_parquet(dr.open_dataset(text), tmp_path / "raw.parquet")
    write_parquet(stored, tmp_path / "scaled.parquet")
    again, _ = dr.ingest(tmp_path / "scaled.parquet", tmp_path / "e.zarr")
    model = dr.LinearModel(
        feature_names=("f3", "f1"),
        weights=(1.5, -0.5),
        transforms=[t.restricted(np.array([2, 0])) for t in stored.transforms],
    )
    expected = model.predict(stored)
    for source in (text, tmp_path / "raw.parquet", tmp_path / "scaled.parquet"):
        np.testing.assert_array_equal(model.predict(dr.open_dataset(source)), expected)
    measured = [
        dr.evaluate(model, data, ["map", "ndcg@3"]).metrics
        for data in (stored, again, *map(dr.open_dataset, (text, tmp_path / "raw.parquet")))
    ]
    assert all(metrics == measured[0] for metrics in measured)


def test_sparse_blocks(text, tmp_path):
    stored, _ = dr.ingest(text, tmp_path / "d.zarr", rows=dr.RowRules(sparse=True))
    assert stored.is_sparse
    np.testing.assert_array_equal(stored.block(0).features.toarray(), X)
    assert dr.open_dataset(text, sparse=True).block(0).features.nnz == 7


def test_hashed_features_are_refused_unless_they_are_sparse_or_announced(tmp_path):
    """By ingest as by every command that reads text; dense rows would take a megabyte each."""
    path, output = tmp_path / "hashed.txt", tmp_path / "data.zarr"
    path.write_text("1 qid:1 3:1 200000:1\n0 qid:1 5:1 300000:1\n")
    wide = r"hashed\.txt:2: feature index 300,000: .*--sparse of dranking ingest"
    with pytest.raises(DataError, match=wide):
        dr.ingest(path, output)
    with pytest.raises(DataError, match=wide):
        dr.open_dataset(path)
    assert not output.exists()
    stored, _ = dr.ingest(path, output, rows=dr.RowRules(sparse=True))
    assert stored.n_features == 300_000
    stored, _ = dr.ingest(path, output, rows=dr.RowRules(n_features=300_000), overwrite=True)
    assert (stored.is_sparse, stored.n_features) == (False, 300_000)
    announced = dr.open_dataset(path, n_features=300_000)
    assert announced.block(0).features.nonzero()[1].tolist() == [2, 199_999, 4, 299_999]


def test_output_that_exists(text, tmp_path):
    dr.ingest(text, tmp_path / "d.zarr")
    with pytest.raises(UsageError, match="overwrite"):
        dr.ingest(text, tmp_path / "d.zarr")
    other = tmp_path / "other.txt"
    other.write_text("1 qid:z 1:1\n")
    replaced, _ = dr.ingest(other, tmp_path / "d.zarr", overwrite=True)
    assert replaced.n_documents == 1


def names_in(folder):
    """Sorted names in a folder; the locks of outputs stay there."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


@pytest.mark.parametrize("normalize", ["none", "standard", "query-minmax"])
@pytest.mark.parametrize("null", ["error", "minimum"])
def test_wrong_data_leaves_the_old_state(text, tmp_path, normalize, null):
    dr.ingest(text, tmp_path / "d.zarr")
    wrong = tmp_path / "wrong.txt"
    wrong.write_text(TEXT + "1 qid:d 1:nonsense\n")
    before = {p: p.read_bytes() for p in (tmp_path / "d.zarr").rglob("*") if p.is_file()}
    with pytest.raises(DataError, match=r"wrong\.txt:6"):
        dr.ingest(
            wrong,
            tmp_path / "d.zarr",
            overwrite=True,
            normalize=normalize,
            rows=dr.RowRules(null=null),
        )
    with pytest.raises(DataError, match=r"wrong\.txt:6"):
        dr.ingest(wrong, tmp_path / "new.zarr", normalize=normalize, rows=dr.RowRules(null=null))
    after = {p: p.read_bytes() for p in (tmp_path / "d.zarr").rglob("*") if p.is_file()}
    assert after == before
    assert names_in(tmp_path) == ["d.zarr", "data.txt", "wrong.txt"]


def test_an_interrupt_leaves_the_old_state(text, tmp_path):
    dr.ingest(text, tmp_path / "d.zarr")

    def interrupt(stage, done, total, facts):
        if stage == "write":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), reporting(interrupt):
        dr.ingest(text, tmp_path / "d.zarr", overwrite=True)
    assert dr.open_dataset(tmp_path / "d.zarr").n_documents == 5
    assert names_in(tmp_path) == ["d.zarr", "data.txt"]


def test_a_full_disk_leaves_the_old_state(text, tmp_path):
    """A limit on the size of files stands in for a full disk: writing fails in the middle."""
    text.write_text("".join(f"{i % 2} qid:{i // 8} 1:{i}.25 2:{i**2}\n" for i in range(20_000)))
    (tmp_path / "old.parquet").write_text("old")
    program = """
import resource, signal, sys
import dranking as dr
folder = sys.argv[1]
dr.ingest(folder + "/data.txt", folder + "/old.zarr", rows=dr.RowRules(n_features=2))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, resource.RLIM_INFINITY))
for normalize in ("none", "standard"):
    for name in ("old.zarr", "new.zarr"):
        try:
            dr.ingest(
                folder + "/data.txt", f"{folder}/{name}", normalize=normalize, overwrite=True
            )
        except dr.UsageError as error:
            print(error)
try:
    dr.write_parquet(
        dr.open_dataset(folder + "/old.zarr"), folder + "/old.parquet", overwrite=True
    )
except dr.UsageError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
    )
    messages = done.stdout.splitlines()
    names = ["old.zarr", "new.zarr", "old.zarr", "new.zarr", "old.parquet"]
    assert len(messages) == len(names)
    for name, message in zip(names, messages, strict=True):
        assert name in message
        assert "File too large" in message
    assert dr.open_dataset(tmp_path / "old.zarr").n_documents == 20_000
    assert (tmp_path / "old.parquet").read_text() == "old"
    assert names_in(tmp_path) == ["data.txt", "old.parquet", "old.zarr"]


def test_what_a_killed_process_left_is_removed(text, tmp_path):
    dr.ingest(text, tmp_path / "d.zarr")
    before = set((tmp_path / "d.zarr").rglob("*"))
    program = """
import os, sys
import dranking as dr
from dranking.engine.progress import reporting
with reporting(lambda stage, *rest: stage == "write" and os.kill(os.getpid(), 9)):
    dr.ingest(sys.argv[1], sys.argv[2], normalize="standard", overwrite=True)
"""
    killed = subprocess.run([sys.executable, "-c", program, text, tmp_path / "d.zarr"], check=False)
    assert killed.returncode == -9
    left = set((tmp_path / "d.zarr").rglob("*")) - before
    assert left
    np.testing.assert_array_equal(values_of(dr.open_dataset(tmp_path / "d.zarr")), X)
    dr.ingest(text, tmp_path / "d.zarr", overwrite=True)
    assert not left & set((tmp_path / "d.zarr").rglob("*"))


def test_every_stage_reports_its_end(text, tmp_path):
    seen = []
    with reporting(lambda stage, done, total, facts: seen.append((stage, done, total))):
        dr.ingest(text, tmp_path / "d.zarr", normalize="standard")
    stages = ["read", "scan", "order", "measure", "write"]
    assert [stage for stage, done, total in seen if done == total] == stages


@pytest.mark.parametrize(
    ("relevance", "expected"),
    [
        ([0, 1, 2, 2], 1),
        ([1, 1, 0, 0], 2),
        ([np.nan, 1, np.nan, np.nan], 2),
        ([0, 1, np.nan, 3], 1),
        ([0, 1, 1, 0], 0),
    ],
)
def test_queries_that_teach_nothing(relevance, expected):
    dataset = dr.from_arrays(np.ones((4, 1)), relevance, [1, 1, 2, 2])
    assert queries_without_pairs(dataset.block(0)) == expected


def test_two_writers_of_one_place(text, tmp_path):
    """Whoever comes second is told so, and the data set of the first stays whole."""
    other = tmp_path / "other.txt"
    other.write_text("1 qid:z 1:1 3:1\n")

    def ingest_too(stage, done, total, facts):
        if stage == "write":
            with reporting(lambda *report: None):
                dr.ingest(other, tmp_path / "d.zarr")

    with pytest.raises(UsageError, match=r"d\.zarr"), reporting(ingest_too):
        dr.ingest(text, tmp_path / "d.zarr")
    assert dr.open_dataset(tmp_path / "d.zarr").n_documents == 1
    assert names_in(tmp_path) == ["d.zarr", "data.txt", "other.txt"]
