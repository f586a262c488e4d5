"""The files of a folder that are read: links, hidden names, endings, outputs of dranking."""

import os
import shutil
import warnings
from pathlib import Path

import pandas as pd
import pytest

import dranking as dr
from dranking.data.parquet.listing import is_hidden
from dranking.errors import DataError, DataWarning
from tests.data.parquet.test_files import files_at


def rows(query):
    return pd.DataFrame({"qid": [query] * 2, "relevance": [0, 1], "x": [1.0, query]})


def put(place, query):
    place.parent.mkdir(parents=True, exist_ok=True)
    rows(query).to_parquet(place.parent / "rows")  # pandas would compress by the name's ending
    (place.parent / "rows").rename(place)


def queries_of(*sources, out):
    """Query ids of the ingested data and of the data read in place, which are the same."""
    dataset, _ = dr.ingest(list(sources), out, overwrite=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert dr.open_dataset(list(sources)).query_ids().equals(dataset.query_ids())
    return dataset.query_ids().to_pylist()


def test_linked_folders_are_read_and_loops_end(tmp_path):
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    put(lake / "date=1" / "a.parquet", 1)
    put(elsewhere / "deep" / "b.parquet", 2)
    (lake / "date=2").symlink_to(elsewhere)
    (lake / "date=3").mkdir()
    put(tmp_path / "c", 3)
    (lake / "date=3" / "c.parquet").symlink_to(tmp_path / "c")
    (elsewhere / "deep" / "up").symlink_to(lake)
    (lake / "date=1" / "loop").symlink_to("..")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert queries_of(lake, out=tmp_path / "d") == [1, 2, 3]
    only = dr.open_dataset(lake, where="date == '2'")
    assert only.query_ids().to_pylist() == [2]


def test_a_folder_that_is_reached_twice_is_read_once_and_the_user_is_told(tmp_path):
    lake = tmp_path / "lake"
    put(lake / "date=9" / "a.parquet", 1)
    (lake / "current").symlink_to("date=9")
    with pytest.warns(DataWarning, match=r"1 files .*read once"):
        assert queries_of(lake, out=tmp_path / "d") == [1]
    with pytest.warns(DataWarning, match="read once"):
        assert dr.open_dataset(lake, where="date == '9'").n_documents == 2


def test_a_link_to_nothing_is_an_error(tmp_path):
    put(tmp_path / "lake" / "a.parquet", 1)
    (tmp_path / "lake" / "b.parquet").symlink_to(tmp_path / "gone")
    with pytest.raises(DataError, match=r"b\.parquet: there is no such file"):
        dr.ingest(tmp_path / "lake", tmp_path / "d")


def test_a_folder_that_may_not_be_read_is_an_error(tmp_path, monkeypatch):
    put(tmp_path / "lake" / "date=1" / "a.parquet", 1)
    put(tmp_path / "lake" / "date=2" / "b.parquet", 2)
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("date=2"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"lake: cannot be read \(Permission denied\)"):
        dr.ingest(tmp_path / "lake", tmp_path / "d")


def test_hidden_names_are_those_of_spark():
    """Of `HadoopFSUtils.shouldFilterOutPathName` in Spark, without its exception of _metadata.

    ``_metadata`` and ``_common_metadata`` hold no rows.
    """
    hidden = ["_SUCCESS", "_temporary", ".part=1", ".a.parquet.crc", "_delta_log", "_metadata"]
    shown = ["_x=1", "__HIVE=a", "x=_1", "part-0.parquet", "_a=b.parquet"]
    assert [is_hidden(name) for name in hidden] == [True] * len(hidden)
    assert [is_hidden(name) for name in shown] == [False] * len(shown)


def test_keys_that_begin_with_an_underscore(tmp_path):
    put(tmp_path / "lake" / "date=1" / "_x=1" / "p.parquet", 1)
    put(tmp_path / "lake" / "date=1" / "_logs" / "p.parquet", 2)
    put(tmp_path / "lake" / "date=2" / "_x=2" / "p.parquet", 3)
    assert queries_of(tmp_path / "lake", out=tmp_path / "d") == [1, 3]
    assert dr.open_dataset(tmp_path / "lake", where="_x == 2").query_ids().to_pylist() == [3]


def test_every_ending_of_parquet_is_read_and_others_are_counted(tmp_path):
    lake = tmp_path / "lake"
    for number, name in enumerate(("a.parquet", "b.pq", "c.PARQUET", "d.Parq")):
        put(lake / name, number)
    (lake / "_SUCCESS").touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert queries_of(lake, out=tmp_path / "d") == [0, 1, 2, 3]
    (lake / "README").write_text("rows")
    put(lake / "sub" / "part-0", 7)
    told = r"lake: 2 files are passed over, .*\.parquet, \.parq, \.pq: README, sub/part-0"
    with pytest.warns(DataWarning, match=told):
        assert queries_of(lake, out=tmp_path / "d") == [0, 1, 2, 3]
    only = tmp_path / "only"
    put(only / "a.pq", 4)
    assert queries_of(only, out=tmp_path / "d") == [4]


def test_output_inside_of_the_input_is_passed_over(tmp_path):
    """A data set, scores and a statistics store, which hold parquet files of their own."""
    lake = tmp_path / "lake"
    put(lake / "a.parquet", 1)
    put(lake / "b.parquet", 2)
    stored, _ = dr.ingest(lake, lake / "d.zarr")
    dr.write_scores(dr.RankRLS().fit(stored).to_model(), stored, lake / "scores")
    with pytest.warns(DataWarning, match=r"d\.zarr, scores"):
        again, _ = dr.ingest(lake, lake / "d.zarr", overwrite=True)
    assert again.fingerprint == stored.fingerprint


def test_a_url_of_a_file_whatever_its_name(tmp_path):
    put(tmp_path / "part-0", 5)
    from dranking.files.places import as_place

    place = as_place("memory://listing/part-0")
    place.write_bytes((tmp_path / "part-0").read_bytes())
    assert queries_of(str(place), out=tmp_path / "d") == [5]
    assert files_at(str(place)).n_rows == 2
    shutil.rmtree(tmp_path / "d")
    assert queries_of(Path(tmp_path / "part-0"), out=tmp_path / "d") == [5]
