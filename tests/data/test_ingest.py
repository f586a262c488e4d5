"""From files of every form to a dataset directory; opening all of them."""

import numpy as np
import pytest

import dranking as dr
from dranking.data.ingest import queries_without_pairs
from dranking.data.open import as_paths, data_form
from dranking.data.parquet import write_parquet
from dranking.errors import DataError, UsageError

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
    stored, n_without_pairs = dr.ingest(text, tmp_path / "d.zarr")
    assert n_without_pairs == 2
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


@pytest.mark.parametrize("normalize", ["query-minmax", "standard"])
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
    else:
        parts = [wide[:2], wide[2:4], wide[4:]]
        spreads = [np.where(np.ptp(p, axis=0) > 0, np.ptp(p, axis=0), 1.0) for p in parts]
        pairs = zip(parts, spreads, strict=True)
        expected = np.concatenate([(p - p.min(axis=0)) / s for p, s in pairs])
    np.testing.assert_allclose(values_of(stored), expected, rtol=1e-6, atol=1e-7)
    assert [t.kind for t in stored.transforms] == [normalize]
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_sparse_blocks(text, tmp_path):
    stored, _ = dr.ingest(text, tmp_path / "d.zarr", sparse=True)
    assert stored.is_sparse
    np.testing.assert_array_equal(stored.block(0).features.toarray(), X)
    assert dr.open_dataset(text, sparse=True).block(0).features.nnz == 7


def test_output_that_exists(text, tmp_path):
    dr.ingest(text, tmp_path / "d.zarr")
    with pytest.raises(UsageError, match="overwrite"):
        dr.ingest(text, tmp_path / "d.zarr")
    other = tmp_path / "other.txt"
    other.write_text("1 qid:z 1:1\n")
    replaced, _ = dr.ingest(other, tmp_path / "d.zarr", overwrite=True)
    assert replaced.n_documents == 1


@pytest.mark.parametrize("normalize", ["none", "standard", "query-minmax"])
@pytest.mark.parametrize("null", ["error", "minimum"])
def test_wrong_data_leaves_the_old_state(text, tmp_path, normalize, null):
    dr.ingest(text, tmp_path / "d.zarr")
    wrong = tmp_path / "wrong.txt"
    wrong.write_text(TEXT + "1 qid:d 1:nonsense\n")
    before = {p: p.read_bytes() for p in (tmp_path / "d.zarr").rglob("*") if p.is_file()}
    with pytest.raises(DataError, match=r"wrong\.txt:6"):
        dr.ingest(wrong, tmp_path / "d.zarr", overwrite=True, normalize=normalize, null=null)
    with pytest.raises(DataError, match=r"wrong\.txt:6"):
        dr.ingest(wrong, tmp_path / "new.zarr", normalize=normalize, null=null)
    after = {p: p.read_bytes() for p in (tmp_path / "d.zarr").rglob("*") if p.is_file()}
    assert after == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.zarr", "data.txt", "wrong.txt"]


def test_an_interrupt_leaves_the_old_state(text, tmp_path):
    dr.ingest(text, tmp_path / "d.zarr")

    def interrupt(n_documents):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dr.ingest(text, tmp_path / "d.zarr", overwrite=True, progress=interrupt)
    assert dr.open_dataset(tmp_path / "d.zarr").n_documents == 5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.zarr", "data.txt"]


def test_progress_counts_documents(text, tmp_path):
    seen = []
    dr.ingest(text, tmp_path / "d.zarr", progress=seen.append)
    assert seen[-1] == 5


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


def test_forms(text, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    write_parquet(dr.open_dataset(text), folder / "p.parquet")
    dr.ingest(text, tmp_path / "d.zarr")
    assert data_form([text]) == "text"
    assert data_form([folder]) == data_form([folder / "p.parquet"]) == "parquet"
    assert data_form([tmp_path / "d.zarr"]) == "directory"
    assert as_paths(str(text)) == as_paths([text]) == [text]
    assert dr.open_dataset(folder).n_documents == 5
    with pytest.raises(DataError, match="parquet and text data cannot be opened as one"):
        dr.open_dataset([text, folder / "p.parquet"])
    with pytest.raises(DataError, match="open them one by one"):
        dr.open_dataset([tmp_path / "d.zarr"] * 2)
    with pytest.raises(DataError, match="there is no such file"):
        dr.open_dataset(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no data is named"):
        dr.open_dataset([])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no manifest\.json"):
        dr.open_dataset(tmp_path / "empty")
