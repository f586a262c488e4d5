"""Directories that tasks write: workers that do not share them, and workers that wake too late."""

import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dranking as dr
from dranking.clicks.counting.click_log import ClickLog
from dranking.clicks.logs.columns import LogColumns
from dranking.clicks.store.night_tables import write_table
from dranking.data.store.segment_writer import write_segment
from dranking.engine.executor import ThreadExecutor
from dranking.errors import UsageError
from dranking.metrics.scores.score_directory import score_rows, write_part
from dranking.rankrls.gram.statistics_store import append_queries, build_statistics
from dranking.rankrls.statistics.block_folder import write_block
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.per_query import QueryStatistics
from tests.data.store.blocks import everything_in, simple_block
from tests.models.problems import random_problem

PART = re.compile(r"(part-)?([0-9a-f]{16}-)?([0-9]{8}-)?[0-9]{6}(-users)?(\.parquet)?")


class Elsewhere(ThreadExecutor):
    """Workers whose host has a folder of the same name: the parts that they write are not here."""

    def __init__(self, folder):
        super().__init__(2)
        self.folder = folder
        self.kept = parts(folder)

    def gather(self, tasks):
        results = super().gather(tasks)
        for part in parts(self.folder) - self.kept:
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        return results


def parts(folder):
    """Parts of the directory of the project in a folder, also under its temporary name."""
    found = set()
    for root in folder.iterdir():
        for inner in (root, root / "segments", root / "blocks", root / "parts"):
            names = os.listdir(inner) if inner.is_dir() else ()
            found |= {inner / name for name in names if PART.fullmatch(name)}
    return found


@pytest.fixture
def data():
    return random_problem(1, n_queries=9, n_features=3).dataset(max_documents=10)


def ingested(data, output, executor):
    table = pd.DataFrame({"qid": [1, 1, 2], "relevance": [0, 1, 1], "x": [0.1, 0.2, 0.3]})
    dr.ingest(table, output, executor=executor)


def built(data, output, executor):
    build_statistics(data, output, executor=executor)


def predicted(data, output, executor):
    dr.write_scores(dr.RankRLS().fit(data).to_model(), data, output, executor=executor)


def counted(data, output, executor, day="2026-01-01", **options):
    names = ("session", "query", "document", "position", "clicked", "user", "time")
    log = pd.DataFrame([("s", "q", "d", 1, True, "u", day)], columns=names)
    log.to_parquet(output.parents[1] / "log.parquet")
    wanted = ClickLog(columns=LogColumns(user="user"), users=True)
    path = output.parents[1] / "log.parquet"
    dr.build_clicks(path, output, log=wanted, executor=executor, **options)


@pytest.mark.parametrize("write", [ingested, built, predicted, counted])
def test_parts_that_went_to_another_host_are_not_published(tmp_path, data, write):
    (tmp_path / "folder").mkdir()
    output = tmp_path / "folder" / "output"
    executor = Elsewhere(tmp_path / "folder")
    with pytest.raises(UsageError, match="output: is not the same directory on all hosts"):
        write(data, output, executor)
    assert not list((tmp_path / "folder").iterdir())
    write(data, output, ThreadExecutor(2))


@pytest.mark.filterwarnings("ignore:.*are in .* already:dranking.errors.DataWarning")
def test_an_append_whose_parts_went_to_another_host_changes_nothing(tmp_path, data):
    output = tmp_path / "store"
    before = build_statistics(data, output).manifest
    others = random_problem(2, n_queries=9, n_features=3).dataset(max_documents=10)
    with pytest.raises(UsageError, match="store: is not the same directory on all hosts"):
        append_queries(output, others, executor=Elsewhere(tmp_path))
    assert StatisticsDataset(output).manifest == before


def test_appended_nights_that_went_to_another_host_change_nothing(tmp_path, data):
    (tmp_path / "folder").mkdir()
    output = tmp_path / "folder" / "store"
    counted(data, output, ThreadExecutor(2))
    before = everything_in(output)
    with pytest.raises(UsageError, match="store: is not the same directory on all hosts"):
        counted(data, output, Elsewhere(tmp_path / "folder"), "2026-01-02", append=True)
    assert everything_in(output) == before


def segment(root, relevance=1.0):
    block = simple_block(3, (3, 2))
    relabelled = replace(block, relevance=np.full(5, relevance))
    write_segment(root, "segments/000000", [relabelled])


def block(root, relevance=1.0):
    block = replace(simple_block(3, (3, 2)), relevance=np.arange(5) * relevance)
    write_block(root, f"blocks/{16 * 'a'}-000000", QueryStatistics.of(block))


def scores(root, score=1.0):
    block = simple_block(3, (3, 2))
    write_part(root, "part-000000.parquet", [score_rows(block, np.full(5, score))])


def nights(root, clicks=1.0):
    write_table(root, f"parts/{16 * 'a'}-20260101-000000.parquet", pa.table({"clicks": [clicks]}))


WRITERS = pytest.mark.parametrize("write", [segment, block, scores, nights])


@WRITERS
def test_a_worker_that_does_not_see_the_directory_says_so(tmp_path, write):
    with pytest.raises(UsageError, match="nowhere: is not the same directory on all hosts"):
        write(tmp_path / "nowhere")
    assert not list(tmp_path.iterdir())


@WRITERS
def test_a_part_is_not_written_in_place(tmp_path, write):
    """A worker that was given up and wakes cuts no file that another worker has written."""
    folder, links = tmp_path / "folder", tmp_path / "links"
    folder.mkdir()
    write(folder)
    shutil.copytree(folder, links, copy_function=os.link)
    before = everything_in(links)
    write(folder, 2.0)
    assert everything_in(links) == before
    assert {file.relative_to(folder) for file in everything_in(folder)} == {
        file.relative_to(links) for file in before
    }
