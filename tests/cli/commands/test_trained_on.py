"""Commands that measure say how many of the judged queries were trained on."""

import json
import shutil

import numpy as np
import pytest

from tests.models.test_trained_queries import rows


def text(path, ids, seed=0):
    X, y, qid = rows(ids, seed)
    lines = [
        f"{grade:g} qid:{query} " + " ".join(f"{i}:{v!r}" for i, v in enumerate(map(float, x), 1))
        for x, grade, query in zip(X.astype(np.float32), y, qid, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_commands_count_the_judged_queries_that_were_trained_on(dranking, tmp_path):
    train = text(tmp_path / "train.txt", range(40))
    shared = text(tmp_path / "shared.txt", range(37, 97))
    anew = text(tmp_path / "anew.txt", range(37, 97), seed=1)
    model, other = tmp_path / "model.json", tmp_path / "other.json"
    assert dranking("select", train, "--n-features", 2, "--output", model)[0] == 0
    assert dranking("train", "ranksvm", anew, "--output", other)[0] == 0
    assert {"model.queries", "other.queries"} <= {file.name for file in tmp_path.iterdir()}

    said = "3 of 60 judged queries were trained on"
    assert said in dranking("evaluate", model, shared)[1]
    found = json.loads(dranking("evaluate", model, shared, "--json")[1])["trained_on"]
    assert found == {"n_judged": 60, "n_trained_on": 3, "n_other_documents": 0}
    out = dranking("evaluate", model, anew)[1]
    assert "0 of 60 judged queries were trained on; 3 more have ids that were trained on" in out

    out = dranking("compare", model, other, shared)[1]
    assert f"A: {said}" in out
    assert "B: 0 of 60 judged queries were trained on; 60 more" in out

    code, out, _ = dranking("report", model, shared, "--output", tmp_path / "r.html")
    assert code == 0
    assert f"model: {said}" in out
    assert said in (tmp_path / "r.html").read_text()

    options = ("--validation", shared, "--regularization", "1,2", "--model", "rankrls")
    out = dranking("tune", train, *options, "--output", tmp_path / "t.json")[1]
    assert f"validation: {said}" in out

    call = ("train", "spd", train, "--epochs", 1, "--validation", shared, "-o", tmp_path / "s.json")
    assert f"validation: {said}" in dranking(*call)[1]
    found = json.loads(dranking(*call, "--overwrite", "--json")[1])["trained_on"]
    assert found["n_trained_on"] == 3

    shutil.move(model, tmp_path / "moved.json")
    out = dranking("evaluate", tmp_path / "moved.json", shared)[1]
    assert "not known whether the model was trained on these queries" in out


@pytest.mark.parametrize(
    "command",
    ["select --n-features 1", "tune", "train ranksvm", "train bilinear --qrels none"],
)
def test_another_file_beside_the_model_is_refused_before_the_training(dranking, tmp_path, command):
    """The data does not exist, so that the error comes before it is opened."""
    for write in (lambda file: file.write_text("mine"), lambda file: (file.unlink(), file.mkdir())):
        write(tmp_path / "model.queries")
        call = (*command.split(), tmp_path / "none", "-o", tmp_path / "model.json")
        code, _, err = dranking(*call)
        assert code == 2
        assert "model.queries: was not written by dranking" in err
    assert [file.name for file in tmp_path.iterdir()] == ["model.queries"]


def test_a_report_refuses_the_test_file_as_training_data(dranking, tmp_path):
    train, test = text(tmp_path / "a.txt", range(30)), text(tmp_path / "b.txt", range(40, 60))
    model = tmp_path / "model.json"
    assert dranking("train", "rankrls", train, "--output", model)[0] == 0
    page = tmp_path / "r.html"
    code, _, err = dranking("report", model, test, "--train", test, "--output", page)
    assert code == 3
    assert "is not that of the model" in err
    assert not page.exists()
    call = ("report", model, test, "--train", train, "--champion", model, "--output", page)
    code, out, _ = dranking(*call, "--json")
    assert code == 0
    known = {"n_judged": 20, "n_trained_on": 0, "n_other_documents": 0}
    assert json.loads(out)["trained_on"] == {"model": known, "champion": known}
