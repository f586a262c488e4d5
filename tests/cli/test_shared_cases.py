"""Small inputs of the design's cases, whose right values plain loops or other tools computed."""

import json
import warnings

import pyarrow.parquet as pq
import pytest

from tests.conftest import REPOSITORY

CASES = REPOSITORY.parent / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"the cases are not at {CASES}")


def measures(dranking, *call):
    code, out, err = dranking(*call, "--json")
    assert code == 0, err
    return json.loads(out)["metrics"]


@pytest.mark.filterwarnings("ignore::dranking.errors.DataWarning")
def test_02_features_that_a_text_does_not_name_are_zero(dranking, tmp_path):
    train, test, valid = (CASES / "02" / f"set1.{use}.txt" for use in ("train", "test", "valid"))
    model = tmp_path / "model.json"
    assert dranking("train", "rankrls", train, "-o", model)[0] == 0
    for data in (test, valid):
        assert dranking("evaluate", model, data)[0] == 0
        assert dranking("compare", model, model, data)[0] == 0
        assert dranking("predict", model, data, "-o", tmp_path / f"{data.name}.csv")[0] == 0
        assert dranking("report", model, data, "-o", tmp_path / f"{data.name}.html")[0] == 0
        tuned = tmp_path / f"{data.name}.json"
        call = "tune", train, "--validation", data, "--regularization", "1,2", "-o", tuned
        assert dranking(*call)[0] == 0
    assert dranking("ingest", train, "-o", tmp_path / "train.zarr")[0] == 0
    code, _, err = dranking("ingest", "--append", valid, "-o", tmp_path / "train.zarr")
    assert code == 3
    assert "exceeds the 7 features" in err
    assert "Ingest everything anew" in err
    assert dranking("ingest", "--append", test, "-o", tmp_path / "train.zarr")[0] == 0


def test_03_the_index_of_a_frame_is_no_feature(dranking, tmp_path):
    model = tmp_path / "model.json"
    call = "select", CASES / "03" / "via_polars.parquet", "--n-features", 1, "-o", model
    code, _, err = dranking(*call)
    assert code == 0, err
    assert "left out '__index_level_0__'" in err
    assert json.loads(model.read_text())["feature_names"] != ["__index_level_0__"]


def test_04_a_byte_order_mark_is_no_part_of_a_run(dranking):
    """trec_eval: a and b have equal scores, and the later id is first."""
    folder = CASES / "04"
    call = "evaluate", folder / "run_bom.txt", folder / "qr.parquet", "--convention", "trec"
    assert measures(dranking, *call, "--metric", "map") == {"map": 1.0}


def test_04_runs_of_any_depth_are_judged_as_trec_eval_does(dranking, tmp_path):
    folder, qrels = CASES / "04", tmp_path / "qrels.parquet"
    pq.write_table(pq.read_table(folder / "qr.parquet").drop_columns("f"), qrels)
    for run, expected in (("short", (0.5, 0.6309)), ("unjudged", (0.3333, 0.5))):
        found = measures(
            dranking, "evaluate", folder / f"run_{run}.txt", qrels, "--metric", "map,ndcg"
        )
        assert tuple(round(value, 4) for value in found.values()) == expected


def test_05_labels_of_plus_and_minus_one(dranking, tmp_path):
    code, _, err = dranking("train", "rankrls", CASES / "05" / "pm1.txt", "-o", tmp_path / "m.json")
    assert code == 3
    assert "26 of 40 documents have no label, which a relevance of -1" in err
    assert not (tmp_path / "m.json").exists()
    code, _, err = dranking("ingest", CASES / "05" / "pm1.txt", "-o", tmp_path / "pm1.zarr")
    assert code == 0
    assert "26 of 40 documents have no label, which a relevance of -1" in err


@pytest.mark.parametrize("name", ["dates", "epoch"])
def test_13_dates_lose_digits_and_are_named(dranking, tmp_path, name):
    data = CASES / "13" / f"{name}.parquet"
    code, out, err = dranking("ingest", data, "-o", tmp_path / "data.zarr")
    assert code == 0, err
    assert "features are kept in float32, which rounds" in err
    assert "constant" not in out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shifted = CASES / "13" / "dates_shifted.parquet"
        assert dranking("ingest", shifted, "-o", tmp_path / "shifted.zarr")[0] == 0


def test_17_a_negative_grade_is_not_judged(dranking):
    call = "evaluate", CASES / "17" / "run.txt", CASES / "17" / "bpref.parquet"
    assert measures(dranking, *call, "--metric", "bpref") == {"bpref": 1.0}


@pytest.mark.parametrize("policy", ["zero", "minimum", "mean"])
def test_18_a_column_of_nulls_is_filled_like_any_missing_value(dranking, tmp_path, policy):
    data = CASES / "18" / "n2.parquet"
    code, _, err = dranking("ingest", data, "-o", tmp_path / "n2.zarr")
    assert code == 3
    assert "is missing (NaN or null)" in err
    code, _, err = dranking("ingest", data, "--null", policy, "-o", tmp_path / "n2.zarr")
    assert code == 0, err
