"""Scores of dask DataFrames that read parquet, of which Dask merges partitions for few columns."""

from itertools import pairwise

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.errors import UsageError
from tests.models.problems import random_problem
from tests.rankrls.leave_query_out.test_scores import LAMBDA, NAMES, close, frame_of, refits

pytestmark = [  # Dask itself calls pandas so, for files with an index
    pytest.mark.filterwarnings(f"ignore:The inplace keyword in DataFrame.{name} is deprecated")
    for name in ("set_index", "reset_index")
]

N_FILES = 12
OTHERS = [f"other {j}" for j in range(9)]
"""Columns that are no features of the model: Dask merges two files or more without them."""

PROBLEM = random_problem(3, n_queries=30, n_features=6, zeros=0.3)


@pytest.fixture(scope="module")
def ranker():
    return dr.GreedyRankRLS(3, LAMBDA).fit(PROBLEM.dataset())


@pytest.fixture(scope="module")
def folder(ranker, tmp_path_factory):
    """Parquet files, one of them without rows, with what each row's score should be.

    Queries lie in several files.
    """
    folder = tmp_path_factory.mktemp("parquet")
    frame = frame_of(PROBLEM)
    frame["row"] = np.arange(len(frame))
    frame[OTHERS] = np.random.default_rng(0).normal(size=(len(frame), len(OTHERS)))
    frame["expected"] = refits(PROBLEM, ranker.selected_)
    borders = np.linspace(0, len(frame), N_FILES + 1).astype(int)
    for name in ("all", "without an empty file"):
        (folder / name).mkdir()
        for number, (start, stop) in enumerate(pairwise(borders)):
            frame.iloc[start:stop].to_parquet(
                folder / name / f"part-{number:02d}.parquet", index=False
            )
    frame.iloc[:0].to_parquet(folder / "all" / "part-03-empty.parquet", index=False)
    return folder


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads"):
        yield


def computed(where, *collections):
    if where == "threads":
        return dask.compute(*collections)
    return where.gather(where.compute(collections))


def columns(ddf, form):
    """The DataFrame of the scores: all columns, or some."""
    return ddf if form == "all" else ddf.drop(columns=[*OTHERS[1:], "expected"])


SOURCES = {
    "fsspec": {},
    "arrow": {"filesystem": "arrow"},
    "known divisions": {"index": "row", "calculate_divisions": True},
}
"""Ways to read the files. Without known divisions, the index has equal labels in all files."""


def read(folder, source, **options):
    """The files; Dask knows no divisions where one of them is empty."""
    is_known = source == "known divisions"
    files = folder / ("without an empty file" if is_known else "all")
    ddf = dd.read_parquet(files, **SOURCES[source], **options)
    assert ddf.known_divisions == is_known
    return ddf


@pytest.mark.parametrize(
    ("source", "form"), [("fsspec", "all"), ("arrow", "some"), ("known divisions", "some")]
)
def test_scores_belong_to_their_rows_beside_whichever_columns(folder, ranker, source, form):
    check_scores(folder, ranker, "threads", source, form)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(("source", "form"), [("fsspec", "some"), ("known divisions", "all")])
def test_scores_of_workers_belong_to_their_rows(folder, ranker, client, source, form):
    check_scores(folder, ranker, client, source, form)


def check_scores(folder, ranker, where, source, form):
    """Alone, joined to the frame, to all that is read, or to one column, and computed with it."""
    ddf = read(folder, source)
    X = columns(ddf, form)
    scores = dr.leave_query_out_scores(ranker, X, executor=where)
    assert scores.npartitions == ddf.npartitions
    assert scores.divisions == ddf.divisions
    forms = (scores, X.assign(score=scores), ddf.assign(score=scores))
    forms = (*forms, ddf[["expected"]].assign(score=scores))
    together, rows = computed(where, scores, ddf)
    for found in (together, *(computed(where, each)[0] for each in forms)):
        pd.testing.assert_index_equal(found.index, rows.index)
        if found.ndim == 2 and "expected" in found:
            close(found.score, found.expected)
        close(found.score if found.ndim == 2 else found, rows.expected)


@pytest.mark.slow
@pytest.mark.cluster
def test_weights_that_are_too_large_for_each_worker(folder, ranker, client, monkeypatch):
    """A partition then gets those of its own queries, and rows are found by known divisions."""
    monkeypatch.setattr("dranking.rankrls.leave_query_out.scores.SHARED_BYTES", 0)
    ddf = read(folder, "known divisions")
    X = columns(ddf, "some")
    found = dr.leave_query_out_scores(ranker, X, executor=client)
    assert found.divisions == ddf.divisions
    joined, alone = computed(client, ddf.assign(score=found), found)
    close(joined.score, joined.expected)
    close(alone, joined.expected)
    with pytest.raises(UsageError, match=r"the divisions of X are unknown, .* 30 queries, "):
        dr.leave_query_out_scores(ranker, read(folder, "fsspec"), executor=client)


@pytest.mark.parametrize("source", ["fsspec", "arrow"])
def test_predictions_join_one_column(folder, tmp_path, source):
    """The model needs all columns of the files, of which Dask then merges none."""
    rows = pd.read_parquet(folder / "without an empty file", columns=NAMES)
    for number, some in enumerate(np.array_split(np.arange(len(rows)), N_FILES)):
        rows.iloc[some].to_parquet(tmp_path / f"part-{number:02d}.parquet", index=False)
    ddf = dd.read_parquet(tmp_path, **SOURCES[source])
    model = dr.RankRLS(LAMBDA).fit(PROBLEM.dataset())
    with dask.config.set({"dataframe.parquet.minimum-partition-size": 1}):
        found = ddf[["f2"]].assign(score=model.predict(ddf)).compute()
    expected = pd.DataFrame({"f2": rows.f2, "score": rows.to_numpy(np.float64) @ model.coef_})
    by_value = [each.sort_values(["f2", "score"]).to_numpy() for each in (found, expected)]
    close(*by_value)
