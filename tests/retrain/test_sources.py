"""Sources: what patterns find, and sources that change."""

import os
from pathlib import Path

import pytest

from dranking.errors import TryAgainError
from dranking.retrain.config import load_config
from dranking.retrain.runner import retrain
from dranking.retrain.sources import find_sources
from dranking.retrain.workflows import parts as parts_module
from tests.retrain.stream import Stream


@pytest.fixture
def stream(tmp_path):
    return Stream(tmp_path)


def run(stream, *settings, **options):
    return retrain(load_config(stream.config(), settings, {}), **options)


def test_a_source_that_changes_while_it_is_read_is_read_again(stream, monkeypatch):
    path = stream.night(1)
    ingest = parts_module.ingest

    def growing(paths, *arguments, **options):
        ingest(paths, *arguments, **options)
        if paths == [path]:
            stream.night(1, shift=0.5)
            os.utime(path, (1, 1))

    monkeypatch.setattr(parts_module, "ingest", growing)
    with pytest.raises(TryAgainError, match=r"night-01\.txt: has changed since the run began"):
        run(stream)
    monkeypatch.undo()
    assert run(stream).accepted


def test_a_source_counts_once_whatever_finds_it(stream):
    stream.night(1)
    odd = stream.folder / "incoming" / "night [2].txt"
    stream.night(2).rename(odd)
    data = load_config(stream.config(), (), {}).data
    names = [f"{stream.folder}/incoming/*.txt", f"{stream.folder}/incoming/*1.txt", str(odd)]
    found = find_sources(names, data)
    assert [Path(source.name).name for source in found] == [odd.name, "night-01.txt"]
    assert find_sources([str(odd)], data) == found[:1]


def test_a_file_in_a_folder_that_changes_makes_another_source(stream):
    folder = stream.folder / "parquet"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"1")
    data = load_config(stream.config(), (), {}).data
    [before] = find_sources([str(folder)], data)
    assert find_sources([str(folder)], data) == [before]
    (folder / "a.parquet").write_bytes(b"12")
    assert find_sources([str(folder)], data) != [before]
