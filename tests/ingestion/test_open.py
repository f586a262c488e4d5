"""Opening ranking data of every form."""

import gzip

import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.data.parquet.dataset import ParquetDataset, write_parquet
from dranking.data.store.dataset import StoredDataset
from dranking.data.tables.in_memory import MemoryDataset
from dranking.errors import DataError, DataWarning, UsageError
from dranking.files.places import as_place
from dranking.ingestion.open import as_paths, data_form
from tests.data.tables.flat_tables import frame_of, written

TEXT = "1 qid:7 1:2 2:3\n0 qid:7 1:4\n2 qid:8 2:5\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text(TEXT)
    return path


def values_of(dataset):
    return np.concatenate([dataset.block(b).features for b in range(dataset.n_blocks)])


@pytest.mark.filterwarnings("ignore:.*1 files are passed over.* no-suffix")
@pytest.mark.parametrize("as_given", [str, lambda path: path, lambda path: [path]])
def test_every_form_is_recognised(text, tmp_path, as_given):
    packed = tmp_path / "data.txt.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    folder = tmp_path / "parts"
    folder.mkdir()
    write_parquet(dr.open_dataset(text), folder / "no-suffix")
    write_parquet(dr.open_dataset(text), folder / "p.parquet")
    dr.ingest(text, tmp_path / "d")
    forms = {
        text: "text",
        packed: "text",
        folder: "parquet",
        folder / "no-suffix": "parquet",
        tmp_path / "d": "directory",
    }
    kinds = {"parquet": ParquetDataset, "directory": StoredDataset}
    for path, form in forms.items():
        assert data_form(as_paths(as_given(path))) == form
        dataset = dr.open_dataset(as_given(path))
        np.testing.assert_array_equal(values_of(dataset), [[2, 3], [4, 0], [0, 5]])
        assert dataset.query_ids().to_pylist() == ["7", "8"]
        assert isinstance(dataset, kinds.get(form, MemoryDataset))


def test_several_files_are_one_data_set_in_the_order_given(text, tmp_path):
    other = tmp_path / "a.txt"
    other.write_text("0 qid:8 1:9\n1 qid:9 2:1\n")
    dataset = dr.open_dataset([text, other])
    assert dataset.query_ids().to_pylist() == ["7", "8", "9"]
    np.testing.assert_array_equal(np.diff(dataset.block(0).query_ptr), [2, 2, 1])
    frame = frame_of()
    parts = [
        written(tmp_path / name, frame[rows])
        for name, rows in (("z.parquet", slice(0, 5)), ("y.parquet", slice(5, None)))
    ]
    np.testing.assert_array_equal(values_of(dr.open_dataset(parts)), frame[["x0", "x1", "x2"]])


def test_options_of_text(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("1 qid:7 1:2 2:NULL\n0 qid:8 1:4\n2 qid:7 2:5\n")
    with pytest.raises(DataError, match=r"data\.txt:1.*NULL"):
        dr.open_dataset(path, regroup=True)
    with pytest.raises(DataError, match=r"data\.txt:3: query 7 appears again"):
        dr.open_dataset(path, null="zero")
    zero = dr.open_dataset(path, null="zero", regroup=True)
    np.testing.assert_array_equal(values_of(zero), [[2, 0], [0, 5], [4, 0]])
    path.write_text("1 qid:7 1:2 2:NULL\n0 qid:7 1:4 2:3\n2 qid:7 2:5\n")
    minimum = dr.open_dataset(path, null="minimum", n_features=3)
    assert minimum.n_features == 3
    np.testing.assert_array_equal(values_of(minimum)[:, 1], [3, 3, 5])
    assert dr.open_dataset(path, null="zero", sparse=True).is_sparse


def test_what_cannot_be_opened(text, tmp_path):
    parquet = written(tmp_path / "p.parquet", frame_of())
    dr.ingest(text, tmp_path / "d.zarr")
    (tmp_path / "empty").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "part-0.jsonl.gz").touch()
    (tmp_path / "empty.txt").touch()
    (tmp_path / "cut.parquet").write_bytes(parquet.read_bytes()[:-50])
    for source, message in [
        ([text, parquet], "parquet and text data cannot be opened as one data set"),
        ([tmp_path / "d.zarr"] * 2, "2 dataset directories were named; open them one by one"),
        (tmp_path / "nowhere", r"nowhere: there is no such file or directory\.$"),
        (
            tmp_path / "*.parquet",
            r"\*\.parquet: there is no .*Name the folder that holds",
        ),
        (tmp_path / "day=*" / "0.parquet", r"a pattern is left to the shell, .* to glob\.glob\.$"),
        ([], "no data is named"),
        (tmp_path / "empty", r"empty: .*no manifest\.json"),
        (tmp_path / "logs", r"logs: neither a data set nor .* part-0\.jsonl\.gz.* a list"),
        (tmp_path / "empty.txt", r"empty\.txt: .*no documents"),
        (tmp_path / "cut.parquet", r"cut\.parquet: cannot be read as parquet"),
    ]:
        with pytest.raises(DataError, match=message):
            dr.open_dataset(source)


@pytest.mark.parametrize(
    "option", [{"null": "zero"}, {"regroup": True}, {"sparse": True}, {"n_features": 3}]
)
def test_what_is_for_text_is_refused_with_other_data(text, tmp_path, option):
    dr.ingest(text, tmp_path / "d")
    write_parquet(dr.open_dataset(text), tmp_path / "p.parquet")
    [name] = option
    for source, form in ((tmp_path / "d", "directory"), (tmp_path / "p.parquet", "parquet")):
        if (name, form) == ("null", "parquet"):
            continue
        with pytest.raises(UsageError, match=f"{name}: only for text.*, but .* is .*{form}"):
            dr.open_dataset(source, **option)
        if name in ("sparse", "n_features", "null"):
            with pytest.raises(UsageError, match=f"{name}: only for text"):
                dr.ingest(source, tmp_path / "e", rows=dr.RowRules(**option))
    assert not (tmp_path / "e").exists()


def hive_folder(folder, frame):
    """Rows of ten queries in folders of dates, none of them directly in the folder."""
    for number, rows in frame.groupby(frame.qid % 2):
        below = folder / f"date=2026-11-0{number + 1}" / "country=fi"
        below.mkdir(parents=True)
        written(below / "part-0.parquet", rows)
    return folder


def test_a_folder_without_files_directly_in_it(tmp_path):
    frame = frame_of((3, 2, 4, 1))
    folder = hive_folder(tmp_path / "lake", frame)
    assert data_form(as_paths(folder)) == "parquet"
    dataset = dr.open_dataset(folder)
    expected = pd.concat([frame[frame.qid % 2 == 0], frame[frame.qid % 2 == 1]])
    assert dataset.feature_names == ("x0", "x1", "x2")
    np.testing.assert_array_equal(values_of(dataset), expected[["x0", "x1", "x2"]])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="interrupted write"):
        dr.open_dataset(tmp_path / "empty")


def test_every_form_behind_a_url(text, tmp_path):
    root = as_place(f"memory://{tmp_path.name}")
    frame = frame_of((3, 2, 4, 1))
    hive = hive_folder(tmp_path / "lake", frame)
    for file in (text, *hive.rglob("*.parquet")):
        (root / file.relative_to(tmp_path).as_posix()).write_bytes(file.read_bytes())
    for name in ("data.txt", "lake"):
        there, here = dr.open_dataset(str(root / name)), dr.open_dataset(tmp_path / name)
        np.testing.assert_array_equal(values_of(there), values_of(here))
        dr.write_dataset([here.block(0)], root / "stored", overwrite=True)
        stored = dr.open_dataset(root / "stored")
        np.testing.assert_array_equal(values_of(stored), here.block(0).features)
    with pytest.raises(DataError, match=r"memory://.*none"):
        dr.open_dataset(root / "none")


def test_a_folder_of_parquet_files_may_be_called_segments(tmp_path):
    folder = tmp_path / "lake/segments"
    folder.mkdir(parents=True)
    written(folder / "part-0123456789abcdef.parquet", frame_of())
    assert data_form([tmp_path / "lake"]) == "parquet"
    killed = tmp_path / "killed/segments/0123456789abcdef-000000"
    killed.mkdir(parents=True)
    written(killed / "documents.parquet", frame_of())
    assert data_form([tmp_path / "killed"]) == "directory"


@pytest.mark.parametrize("content", ['{"entries": []}', "[1]", '{"format": "other-2"}'])
def test_a_lake_with_a_manifest_of_its_own_is_parquet(text, tmp_path, content):
    lake = tmp_path / "lake"
    lake.mkdir()
    write_parquet(dr.open_dataset(text), lake / "p.parquet")
    (lake / "manifest.json").write_text(content)
    with pytest.warns(DataWarning, match="1 files are passed over.*manifest"):
        assert dr.open_dataset(lake).n_documents == 3
    with pytest.warns(DataWarning):
        assert dr.ingest(lake, tmp_path / "d")[0].n_documents == 3
    (tmp_path / "d" / "manifest.json").write_text(content)  # of a data set, it is damage
    with pytest.raises(DataError, match=r"d.*manifest"):
        dr.open_dataset(tmp_path / "d")


def test_a_feature_that_no_line_names_is_zero_where_it_is_needed(tmp_path):
    """Sparse text ends lines at the last feature that is not 0."""
    (tmp_path / "train.txt").write_text("1 qid:1 1:1 3:2\n0 qid:1 2:1\n2 qid:2 3:1\n0 qid:2 1:1\n")
    (tmp_path / "test.txt").write_text("1 qid:3 1:1\n0 qid:3 2:4\n")
    model = dr.RankRLS().fit(dr.open_dataset(tmp_path / "train.txt")).to_model()
    needed = dr.Columns(needed=model.feature_names)
    with pytest.warns(DataWarning, match=r"test\.txt: .*2.*3"):
        test = dr.open_dataset(tmp_path / "test.txt", columns=needed)
    expected = np.array([[1, 0, 0], [0, 4, 0]]) @ model.weights
    np.testing.assert_allclose(model.predict(test), expected, rtol=1e-6)
    wider = dr.open_dataset(tmp_path / "train.txt", columns=dr.Columns(needed=["f1"]))
    assert wider.n_features == 3
    with pytest.raises(DataError, match=r"lacks 1 of the 3 features needed: f3"):
        model.predict(dr.open_dataset(tmp_path / "test.txt"))
