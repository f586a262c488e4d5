"""Mistakes in which an argument is right, and stands in the wrong place or command."""

import pytest

import dranking as dr

TEXT = "".join(f"{d % 2} qid:{q} 1:{d}.0\n" for q in range(3) for d in range(4))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "data.txt").write_text(TEXT)
    model = dr.LinearModel(feature_names=("f1",), weights=(1.0,))
    return tmp_path / "data.txt", model.save(tmp_path / "model.json") or tmp_path / "model.json"


@pytest.mark.parametrize("command", ["evaluate", "compare", "predict", "report", "bounds"])
def test_a_model_in_the_place_of_data_is_recognised(command, dranking, files, tmp_path):
    data, model = files
    output = ("-o", tmp_path / "out.html") if command in ("predict", "report") else ()
    code, _, err = dranking(command, data, model, *output)
    assert code == 2
    assert f"{model}: is a model, and stands where DATA is expected" in err
    assert not (tmp_path / "out.html").exists()


def test_a_model_is_no_training_data(dranking, files, tmp_path):
    code, _, err = dranking("tune", files[1], "-o", tmp_path / "out.json")
    assert (code, "this is a model, which stands where data is expected" in err) == (3, True), err


@pytest.mark.parametrize("name", ["report.pdf", "report.png", "report.md"])
def test_a_report_in_another_form_is_refused(name, dranking, files, tmp_path):
    data, model = files
    code, _, err = dranking("report", model, data, "-o", tmp_path / name)
    assert (code, "a report is an HTML page" in err) == (2, True), err
    assert not (tmp_path / name).exists()
    with pytest.raises(dr.UsageError, match="a report is an HTML page; name a file"):
        dr.write_report(dr.load_model(model), data, tmp_path / name)


@pytest.mark.parametrize("lambdas", ["2^0..2^5", "1,8"])
@pytest.mark.parametrize("command", ["select --n-features 1", "train ranksvm"])
def test_several_lambdas_are_what_tune_tries(command, lambdas, dranking, files, tmp_path):
    options = ("--regularization", lambdas, "-o", tmp_path / "out.json")
    code, _, err = dranking(*command.split(), files[0], *options)
    told = " ".join(err.replace("│", " ").split())
    assert code == 2
    assert f"dranking tune DATA --regularization {lambdas} --output MODEL" in told
