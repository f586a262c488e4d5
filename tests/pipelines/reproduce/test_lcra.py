"""The study of LCRA: its splits, its tests, and that the script runs on made-up data."""

import csv
import json
import math
import pickle
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import dranking as dr
from dranking.errors import DataError, UsageError
from pipelines.reproduce.lcra import table as lcra
from pipelines.reproduce.lcra.protocol import (
    Grid,
    Judged,
    compared,
    letor_files,
    map_splits,
    read_judged,
    relevance_of_queries,
    resampled_error,
    run_method,
    split_queries,
)


def made_up(seed=0, n_queries=60, n_features=46):
    """Every third query has documents of one grade alone."""
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(n_queries), 8)
    X = rng.random((len(query), n_features)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=len(X)), [1.2, 1.6]).astype(float)
    y[query % 3 == 0] = 0
    return Judged(X, y, query)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A LETOR folder of five parts with the made-up data, named as one that the paper has."""
    folder = tmp_path_factory.mktemp("letor") / "TD2003"
    folder.mkdir()
    judged = made_up()
    for part in range(5):
        with (folder / f"S{part + 1}.txt").open("w") as file:
            for row in np.flatnonzero(judged.query % 5 == part):
                values = " ".join(f"{i}:{v}" for i, v in enumerate(judged.features[row], start=1))
                file.write(f"{judged.relevance[row]:.0f} qid:{judged.query[row]} {values}\n")
    return folder


def test_a_folder_is_read_once_and_scaled_within_queries(folder):
    judged = read_judged(folder)
    assert (judged.n_queries, len(judged.query)) == (60, 480)
    for query in (0, 59):
        features = judged.features[judged.query == query]
        np.testing.assert_array_equal(features.min(axis=0), 0)
        np.testing.assert_array_equal(features.max(axis=0), 1)


def test_a_fold_has_every_query(tmp_path):
    for fold in ("Fold1", "Fold2"):
        (tmp_path / fold).mkdir()
        for name in ("train", "vali", "test"):
            (tmp_path / fold / f"{name}.txt").touch()
    names = [path.relative_to(tmp_path).as_posix() for path in letor_files(tmp_path)]
    assert names == ["Fold1/test.txt", "Fold1/train.txt", "Fold1/vali.txt"]


def test_a_folder_without_files(tmp_path):
    with pytest.raises(DataError, match=r"holds neither S1\.txt"):
        letor_files(tmp_path)


def test_a_split_keeps_few_labels_and_tests_on_other_queries():
    judged = made_up()
    split = split_queries(judged, 3, 0.25)
    assert (split.train.n_queries, split.test.n_queries) == (42, 18)
    in_train = set(split.train.query_ids().to_pylist())
    assert in_train.isdisjoint(split.test.query_ids().to_pylist())
    of_queries = relevance_of_queries(split.train)
    assert sorted(int(np.isfinite(y).sum()) for y in of_queries) == [0] * 32 + [8] * 10
    assert split.test.n_unlabelled == 0
    for query, y in zip(split.train.query_ids().to_pylist(), of_queries, strict=True):
        if np.isfinite(y).any():
            np.testing.assert_array_equal(y, judged.relevance[judged.query == query])
    other = split_queries(judged, 4, 0.25)
    assert in_train != set(other.train.query_ids().to_pylist())


def test_differences_are_tested_as_pairs():
    ours, theirs = [0.5, 0.52, 0.47, 0.5], [0.45, 0.5, 0.47, 0.51]
    found = compared(ours, theirs)
    assert found.p_paired == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)
    # Differences 5, 2, 0, -1 hundredths: mean 1.5, variance 7; times 1/4 + 3/7 = 19/28.
    assert found.mean == pytest.approx(0.015)
    assert found.spread == pytest.approx(math.sqrt(7) / 100)
    error = math.sqrt(7 * 19 / 28) / 100
    assert resampled_error(np.array([0.05, 0.02, 0.0, -0.01]), 3 / 7) == pytest.approx(error)
    assert found.p_corrected == pytest.approx(2 * stats.t(3).sf(0.015 / error))
    assert found.half_width == pytest.approx(stats.t(3).ppf(0.975) * error)
    same = compared(ours, ours)
    assert (same.p_paired, same.p_corrected, same.ties) == (1.0, 1.0, 4)


@pytest.mark.parametrize(("name", "names"), [
    ("SPD", {"regularization", "eta0"}),
    ("SPD MV", {"regularization", "mu", "eta0"}),
    ("LCRA-1-5", {"regularization", "mu", "eta0"}),
])  # fmt: skip
def test_the_score_is_that_of_the_setting_chosen(name, names):
    split = split_queries(made_up(), 0, 0.5)
    grid = Grid(lambdas=(1e-2, 1.0), mus=(0.1, 1.0), eta0s=(None, 0.1))
    steps = {"sgd": {"n_epochs": 1, "steps_per_epoch": 300}, "random_state": 5}
    outcome = run_method(name, split, grid, steps, "letor4")
    assert set(outcome.setting) == names
    if name == "SPD MV":
        assert outcome.setting["mu"] == 0.0
    make = dr.SPD if name == "SPD" else dr.LCRA
    setting = dict(outcome.setting)
    own = {**steps, "sgd": {**steps["sgd"], "eta0": setting.pop("eta0")}}
    fitted = make(**setting, **own).fit(split.train).to_model()
    score = dr.evaluate(fitted, split.test, ["map"], "letor4").metrics["map"]
    assert outcome.score == pytest.approx(score, rel=1e-12)
    assert outcome.attainable >= outcome.score


def test_splits_run_in_processes_and_come_in_order():
    assert list(map_splits(str, 3, jobs=2)) == list(map_splits(str, 3, jobs=1)) == ["0", "1", "2"]
    options = SimpleNamespace(quick=True, convention="letor4", labels=0.5, steps=100)
    run = partial(lcra.run_split, made_up(), options)
    found = pickle.loads(pickle.dumps(run))(1)
    assert found == run(1)
    assert all(0 < outcome.score < 1 for outcome in found.values())


QUICK = ("--quick", "--splits", "2")


def test_the_table(folder, tmp_path, capsys):
    table = tmp_path / "table.csv"
    options = (*QUICK, "--labels", "0.5", "--steps", "200")
    lcra.main([str(folder), *options, "--table", str(table), "--json"])
    result = json.loads(capsys.readouterr().out)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [(row["method"], row["split"]) for row in rows[:3]] == [
        ("LCRA-1-5", "0"), ("LCRA-1-5", "1"), ("LCRA-1-1", "0"),
    ]  # fmt: skip
    scores = {}
    for row in rows:
        scores.setdefault(row["method"], []).append(float(row["test_map"]))
    assert list(scores) == ["LCRA-1-5", "LCRA-1-1", "SPD", "SPD MV"]
    for method, of_method in scores.items():
        assert result["test_map"][method]["mean"] == pytest.approx(np.mean(of_method))
        assert result["test_map"][method]["spread"] == pytest.approx(np.std(of_method, ddof=1))
    first = result["differences"][0]
    assert (first["of"], first["less"]) == ("LCRA-1-5", "SPD")
    assert first["mean"] == pytest.approx(np.mean(scores["LCRA-1-5"]) - np.mean(scores["SPD"]))
    assert result["published"]["LCRA-1-5"] == 0.15

    with pytest.raises(UsageError, match="exists"):
        lcra.main([str(folder), *options, "--table", str(table)])
    lcra.main([str(folder), *options])
    shown = capsys.readouterr().out
    assert "TD2003: test MAP of 2 random splits" in shown
    for summary in result["test_map"].values():
        assert f"{summary['mean']:.4f}" in shown
    for text in ("standard deviation", "published", "LCRA-1-5 less SPD MV", "0.1500"):
        assert text in shown


def test_one_split_has_no_spread(folder):
    with pytest.raises(UsageError, match="at least 2"):
        lcra.main([str(folder), "--splits", "1"])
