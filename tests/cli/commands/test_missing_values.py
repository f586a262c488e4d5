"""Commands on tables with missing values, against the same commands on tables filled by hand."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.cli.options.columns import ColumnOptions
from tests.data.gaps import filled_by_hand, table_with_gaps

N_TEST = 15
CASE = Path("../shared/cases/09")


@pytest.fixture(name="folder")
def tables(tmp_path, monkeypatch):
    """Training and test table with gaps, and both filled with the means of the training table."""
    monkeypatch.chdir(tmp_path)
    train, test = table_with_gaps(0), table_with_gaps(1, n_queries=N_TEST)
    test["qid"] += 1_000
    for name, table in (("train", train), ("test", test)):
        table.to_parquet(f"{name}.parquet")
        filled_by_hand(table, "mean", train).to_parquet(f"{name}-filled.parquet")
    return tmp_path


def ok(dranking, *arguments):
    code, out, err = dranking(*arguments)
    assert code == 0, err
    return out


def ndcg(grades, scores, k=10):
    """NDCG of one query: gains 2^grade - 1, discounts log2(rank + 1)."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    best = sorted(grades, reverse=True)
    gain = sum((2 ** grades[i] - 1) / math.log2(r + 2) for r, i in enumerate(order[:k]))
    ideal = sum((2**g - 1) / math.log2(r + 2) for r, g in enumerate(best[:k]))
    return gain / ideal if ideal else None


def mean_ndcg(table, weights):
    """Mean NDCG@10 over the queries with a relevant document, by plain loops."""
    values = []
    for _, query in table.groupby("qid"):
        rows = query[list(weights)].astype(np.float32).astype(np.float64).to_numpy()
        scores = [sum(w * x for w, x in zip(weights.values(), row, strict=True)) for row in rows]
        values.append(ndcg(query.relevance.tolist(), scores))
    counted = [value for value in values if value is not None]
    return sum(counted) / len(counted)


def measured(dranking, model, data, *more):
    found = ok(dranking, "evaluate", model, data, "--metric", "ndcg@10", "--json", *more)
    return json.loads(found)["metrics"]["ndcg@10"]


def test_a_selection_is_that_of_the_table_filled_by_hand(dranking, folder):
    options = ("--n-features", 3)
    ok(dranking, "select", "train.parquet", "--null", "mean", "-o", "m.json", *options)
    ok(dranking, "select", "train-filled.parquet", "-o", "by-hand.json", *options)
    model, by_hand = dr.load_model("m.json"), dr.load_model("by-hand.json")
    assert model.weights == by_hand.weights
    for data, form in (("test", "csv"), ("test", "parquet"), ("test", "trec")):
        ok(dranking, "predict", "m.json", f"{data}.parquet", "-o", f"a.{form}")
        ok(dranking, "predict", "by-hand.json", f"{data}-filled.parquet", "-o", f"b.{form}")
        if form != "parquet":
            assert Path(f"a.{form}").read_bytes() == Path(f"b.{form}").read_bytes()
        else:
            assert pq.read_table("a.parquet").equals(pq.read_table("b.parquet"))
    ok(dranking, "predict", "m.json", "test.parquet", "-o", "folder")
    weights = dict(zip(by_hand.feature_names, by_hand.weights, strict=True))
    expected = mean_ndcg(pd.read_parquet("test-filled.parquet"), weights)
    assert measured(dranking, "m.json", "test.parquet") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("rankrls", ()),
        ("ranksvm", ()),
        ("spd", ("--epochs", 2, "--normalize", "standard")),
        ("max-margin", ("--normalize", "standard")),
    ],
)
def test_every_training_takes_null(dranking, folder, command, options):
    ok(dranking, "train", command, "train.parquet", "--null", "mean", "-o", "m.json", *options)
    ok(dranking, "train", command, "train-filled.parquet", "-o", "by-hand.json", *options)
    assert dr.load_model("m.json").weights == dr.load_model("by-hand.json").weights


def test_tune_fits_the_values_once_to_all_training_data(dranking, folder):
    for end, null in (("", ("--null", "mean")), ("-filled", ())):
        for how in (("--folds", 3), ("--validation", f"test{end}.parquet")):
            name = f"{how[0][2:]}{end}.json"
            ok(
                dranking,
                *("tune", f"train{end}.parquet", *how, *null, "--regularization", "1,8"),
                *("--metric", "ndcg@10", "-o", name),
            )
    for how in ("folds", "validation"):
        model, by_hand = dr.load_model(f"{how}.json"), dr.load_model(f"{how}-filled.json")
        assert (model.weights, model.feature_names) == (by_hand.weights, by_hand.feature_names)


def test_comparisons_reports_and_bounds_read_rows_with_gaps(dranking, folder):
    ok(dranking, "train", "rankrls", "train.parquet", "--null", "mean", "-o", "m.json")
    ok(dranking, "train", "rankrls", "train.parquet", "--null", "zero", "-o", "zero.json")
    found = json.loads(
        ok(dranking, "compare", "m.json", "zero.json", "test.parquet", "--metric", "map", "--json")
    )
    means = [
        json.loads(ok(dranking, "evaluate", m, "test.parquet", "--metric", "map", "--json"))
        for m in ("m.json", "zero.json")
    ]
    [metric] = found["metrics"]
    expected = pytest.approx([m["metrics"]["map"] for m in means])
    assert [metric["mean_a"], metric["mean_b"]] == expected
    ok(dranking, "bounds", "m.json", "train.parquet", "--json")
    ok(dranking, "report", "m.json", "test.parquet", "--train", "train.parquet", "-o", "r.html")
    assert "missing value (mean of the training data)" in Path("r.html").read_text()
    shown = json.loads(ok(dranking, "info", "m.json", "--json"))
    assert shown["constants"]["gaps"] == [False, True, False]


def test_data_filled_with_its_own_mean_is_refused(dranking, folder):
    ok(dranking, "train", "rankrls", "train.parquet", "--null", "mean", "-o", "m.json")
    ok(dranking, "ingest", "test.parquet", "--null", "mean", "-o", "own.zarr")
    code, _, err = dranking("evaluate", "m.json", "own.zarr")
    assert code == 3
    assert "'rating'" in err
    assert "--null-from" in err
    ok(dranking, "ingest", "test.parquet", "--null-from", "m.json", "-o", "as-model.zarr")
    assert measured(dranking, "m.json", "as-model.zarr") == measured(
        dranking, "m.json", "test.parquet"
    )


def test_null_permits_a_gap_where_training_saw_none(dranking, folder):
    ok(dranking, "train", "rankrls", "train.parquet", "--null", "mean", "-o", "m.json")
    train, table = pd.read_parquet("train.parquet"), pd.read_parquet("test.parquet")
    table.loc[3, "age"] = np.nan
    table.to_parquet("more.parquet")
    filled_by_hand(table, "mean", train).to_parquet("more-filled.parquet")
    code, _, err = dranking("predict", "m.json", "more.parquet", "-o", "s.csv")
    assert code == 3
    assert "'age'" in err
    assert "--null" in err
    ok(dranking, "predict", "m.json", "more.parquet", "--null", "mean", "-o", "s.csv")
    ok(dranking, "train", "rankrls", "train-filled.parquet", "-o", "by-hand.json")
    ok(dranking, "predict", "by-hand.json", "more-filled.parquet", "-o", "t.csv")
    assert Path("s.csv").read_bytes() == Path("t.csv").read_bytes()
    code, _, err = dranking("predict", "m.json", "more.parquet", "--null", "zero", "-o", "u.csv")
    assert code == 2
    assert "the mean of the feature stands for a missing value" in err


def test_append_and_a_fresh_ingest_with_null_from_are_equal(dranking, folder):
    ok(dranking, "ingest", "train.parquet", "--null", "minimum", "-o", "grown.zarr")
    ok(dranking, "ingest", "train.parquet", "--null", "minimum", "-o", "first.zarr")
    ok(dranking, "ingest", "test.parquet", "-o", "grown.zarr", "--append")
    both = ("train.parquet", "test.parquet")
    ok(dranking, "ingest", *both, "--null-from", "first.zarr", "-o", "fresh.zarr")
    grown, fresh = dr.open_dataset("grown.zarr"), dr.open_dataset("fresh.zarr")
    assert grown.constants == fresh.constants
    rows = [np.concatenate([b.features for b in data.read_blocks()]) for data in (grown, fresh)]
    np.testing.assert_array_equal(*rows)
    ok(dranking, "stats", "build", "train.parquet", "--null", "minimum", "-o", "store")
    ok(dranking, "stats", "append", "store", "test.parquet")
    ok(dranking, "train", "rankrls", "store", "-o", "s.json")
    ok(dranking, "train", "rankrls", "grown.zarr", "-o", "g.json")
    np.testing.assert_allclose(
        dr.load_model("s.json").weights, dr.load_model("g.json").weights, rtol=1e-9
    )
    assert dr.load_model("s.json").constants == dr.load_model("g.json").constants


def test_rows_are_appended_by_the_policy_of_the_data_set_alone(dranking, folder):
    ok(dranking, "ingest", "train.parquet", "--null", "zero", "-o", "grown.zarr")
    append = ("ingest", "test.parquet", "-o", "grown.zarr", "--append", "--null")
    before = dr.open_dataset("grown.zarr").fingerprint
    code, _, err = dranking(*append, "mean")
    assert (code, "zero" in err) == (2, True)
    assert dr.open_dataset("grown.zarr").fingerprint == before
    ok(dranking, *append, "zero")
    assert dr.open_dataset("grown.zarr").constants.policy == "zero"


@pytest.mark.parametrize("null", ["zero", "mean", "minimum"])
def test_a_column_of_nulls_is_filled(dranking, folder, null):
    table = pa.Table.from_pandas(table_with_gaps(2), preserve_index=False)
    pq.write_table(table.append_column("price", pa.nulls(table.num_rows)), "empty.parquet")
    code, _, err = dranking("select", "empty.parquet", "--n-features", 2, "-o", "m.json")
    assert code == 3
    assert "is missing (NaN or null)" in err
    ok(dranking, "select", "empty.parquet", "--n-features", 2, "--null", null, "-o", "m.json")
    ok(dranking, "ingest", "empty.parquet", "--null", null, "-o", "e.zarr")
    assert dr.open_dataset("e.zarr").constants.values[3] == 0.0


def test_null_is_refused_with_a_dataset_directory(dranking, folder):
    ok(dranking, "ingest", "train.parquet", "--null", "mean", "-o", "d.zarr")
    code, _, err = dranking("train", "rankrls", "d.zarr", "--null", "mean", "-o", "m.json")
    assert code == 2
    assert "filled when it was ingested" in err


@pytest.mark.skipif(not CASE.exists(), reason="the shared cases are not there")
def test_the_case_of_a_rating_that_is_missing(dranking, tmp_path):
    """With the test table's own mean the value is .94048, and .88183 with 0."""
    case = CASE.resolve()
    options = ("--n-features", 2, "--null", "mean")
    ok(dranking, "select", case / "tr.parquet", *options, "-o", tmp_path / "m.json")
    model = dr.load_model(tmp_path / "m.json")
    train, test = (pd.read_parquet(case / f"{name}.parquet") for name in ("tr", "te"))
    weights = dict(zip(model.feature_names, model.weights, strict=True))
    expected = mean_ndcg(filled_by_hand(test, "mean", train), weights)
    found = measured(dranking, tmp_path / "m.json", case / "te.parquet")
    assert found == pytest.approx(expected, abs=1e-12)
    assert found == pytest.approx(0.94527, abs=5e-6)


def test_a_report_fills_the_training_table_with_the_values_of_the_model(dranking, folder):
    for data, source in (("other", "test.parquet"), ("again", "train.parquet")):
        known = ("--null", "mean") if data == "other" else ("--null-from", "other")
        ok(dranking, "ingest", source, "-o", data, *known)
    ok(dranking, "ingest", "train.parquet", "-o", "own", "--null", "mean")
    ok(dranking, "train", "rankrls", "again", "-o", "m.json")
    model = dr.load_model("m.json")
    opened = ColumnOptions().open_training_of(model, Path("train.parquet"))
    np.testing.assert_array_equal(
        opened.block(0).features, dr.open_dataset("again").block(0).features
    )
    written = ("report", "m.json", "test.parquet", "-o", "r.html", "--overwrite", "--train")
    for same in ("train.parquet", "again"):
        ok(dranking, *written, same)
    code, _, err = dranking(*written, "own")
    assert code == 3
    assert "filled with other values than those of the training" in err


def test_null_beside_a_file_of_scores_has_no_effect_and_says_so(dranking, folder):
    ok(dranking, "train", "rankrls", "train.parquet", "--null", "mean", "-o", "m.json")
    ok(dranking, "predict", "m.json", "test.parquet", "-o", "s.csv")
    for option, said in (((), False), (("--null", "zero"), True)):
        code, _, err = dranking("evaluate", "s.csv", "test.parquet", *option)
        assert code == 0
        assert ("--null has no effect on s.csv" in err) == said
