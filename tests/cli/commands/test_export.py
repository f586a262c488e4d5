"""`dranking export`."""

import hashlib
import json
import sqlite3

import numpy as np
import pytest

import dranking as dr
from dranking.data.column_constants import ColumnConstants
from dranking.models.export.formats import FORMATS


@pytest.fixture
def model_file(dranking, letor, tmp_path):
    path = tmp_path / "model.json"
    code, _, err = dranking(
        "select", letor(), "--n-features", 3, "--regularization", 1, "--output", path
    )
    assert code == 0, err
    return path


def test_every_format_is_written(dranking, model_file, tmp_path):
    names = tmp_path / "names.json"
    stored = dr.load_model(model_file)
    for form in FORMATS:
        prefix = "" if form == "ranklib" else "f_"  # RankLib knows features by their numbers
        given = {name: f"{prefix}{i + 1}" for i, name in enumerate(stored.feature_names)}
        names.write_text(json.dumps(given))
        output = tmp_path / f"out-{form}"
        code, out, err = dranking(
            "export", model_file, "--format", form, "--output", output,
            "--feature-names", names, "--json",
        )  # fmt: skip
        assert code == 0, err
        assert json.loads(out)["n_features"] == 3
        assert output.stat().st_size > 50


def test_sql_ranks_a_table_as_predict_does(dranking, model_file, letor, tmp_path):
    code, _, _ = dranking("export", model_file, "--format", "sql", "-o", tmp_path / "score.sql")
    assert code == 0
    data = dr.open_dataset(letor(seed=5))
    X = np.concatenate([data.block(b).features for b in range(data.n_blocks)])
    connection = sqlite3.connect(":memory:")
    connection.execute(
        f"CREATE TABLE d ({', '.join(chr(34) + n + chr(34) for n in data.feature_names)})"
    )
    connection.executemany(
        f"INSERT INTO d VALUES ({', '.join('?' * X.shape[1])})", [tuple(map(float, x)) for x in X]
    )
    expression = (tmp_path / "score.sql").read_text()
    found = [score for (score,) in connection.execute(f"SELECT\n{expression}\nFROM d")]
    np.testing.assert_allclose(found, dr.load_model(model_file).predict(data), rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--format", "lucene"], 2, "format 'lucene' is unknown"),
        (["--format", "solr", "--name", "a b"], 2, "cannot be called 'a b'"),
        (["--format", "solr", "--feature-names", "absent.json"], 3, "cannot be read"),
    ],
)
def test_what_is_wrong_is_said(dranking, model_file, tmp_path, arguments, code, message):
    output = tmp_path / "out"
    found, out, err = dranking("export", model_file, "--output", output, *arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert not output.exists()


def test_names_must_be_an_object_of_texts(dranking, model_file, tmp_path):
    names = tmp_path / "names.json"
    for content in ("[1]", '{"1": 2}', "{"):
        names.write_text(content)
        code, _, err = dranking(
            "export", model_file, "--format", "solr", "--feature-names", names, "-o", tmp_path / "o"
        )
        assert code == 3
        assert "JSON" in err


def test_one_weight_is_one_weight(dranking, model_file, tmp_path):
    dr.LinearModel(feature_names=("x",), weights=(2.0,)).save(tmp_path / "one.json")
    for model, said in ((tmp_path / "one.json", "1 weight written"), (model_file, "3 weights wr")):
        _, _, err = dranking(
            "export", model, "--format", "sql", "-o", tmp_path / f"{model.stem}.sql"
        )
        assert said in err


def test_every_export_has_a_model_card(dranking, model_file, tmp_path):
    output = tmp_path / "ltr.sql"
    code, out, err = dranking("export", model_file, "--format", "sql", "-o", output, "--json")
    assert code == 0, err
    card = json.loads((tmp_path / "ltr.sql.card.json").read_text())
    assert json.loads(out)["card"] == str(tmp_path / "ltr.sql.card.json")
    digest = hashlib.sha256(output.read_bytes()).hexdigest()
    assert card["exports"] == [{"file": "ltr.sql", "sha256": digest}]
    assert "--format sql" in card["origin"]["command"]
    assert digest in (tmp_path / "ltr.sql.card.html").read_text()
    output.unlink()
    code, _, err = dranking("export", model_file, "--format", "sql", "-o", output)
    assert code == 2
    assert "ltr.sql.card.json" in err
    assert not output.exists()


def test_zeros_for_missing_values_are_accepted_by_name_and_stand_on_the_card(dranking, tmp_path):
    constants = ColumnConstants(policy="mean", values=(4.5, 0.0), gaps=(True, True))
    model = dr.LinearModel(
        feature_names=("rating", "bm25"), weights=(1.0, 2.0), constants=constants
    )
    model.save(tmp_path / "model.json")
    call = "export", tmp_path / "model.json", "--format", "elasticsearch", "-o", tmp_path / "es"
    code, _, err = dranking(*call)
    assert code == 2
    assert "for rating 4.5." in err
    assert not (tmp_path / "es").exists()
    code, _, err = dranking(*call, "--missing-as-zero")
    assert code == 0, err
    assert "warning: elasticsearch takes a missing value for 0" in err
    said = json.loads((tmp_path / "es.card.json").read_text())["origin"]["missing values"]
    assert said.endswith("for rating 4.5")
    assert said in (tmp_path / "es.card.html").read_text()
