"""`train`: options reach the estimators, and the model is the one that Python's call gives."""

import csv
import inspect
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

import dranking as dr
from dranking.cli.app import app

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

SHORT = ("--epochs", 2, "--steps-per-epoch", 500)
STEPS = {"n_epochs": 2, "steps_per_epoch": 500}


@pytest.fixture
def partly(letor: Write, tmp_path: Path) -> Path:
    """Data without labels in every third query."""
    path = tmp_path / "partly.txt"
    lines = letor("whole.txt").read_text().splitlines()
    hidden = [
        f"-1{row[1:]}" if any(f"qid:{q} " in row for q in (0, 3, 6)) else row for row in lines
    ]
    path.write_text("\n".join(hidden) + "\n")
    return path


def weights_of(path: Path) -> np.ndarray:
    return np.array(json.loads(path.read_text())["weights"])


@pytest.mark.parametrize(
    ("options", "steps", "parameters"),
    [
        ((), {}, {}),
        (("--loss", "logistic"), {}, {"loss": "logistic"}),
        (
            ("--label", "difference", "--normalize", "log"),
            {},
            {"pairs": {"label": "difference"}, "normalize": "log"},
        ),
        (("--average", "all", "--projection"), {"average": "all"}, {"projection": True}),
        (("--eta0", "2^-4", "--seed", 3), {"eta0": 2.0**-4}, {"random_state": 3}),
        (("--eta0", "inf", "--regularization", "0.1"), {"eta0": np.inf}, {"regularization": 0.1}),
        (
            ("--sampling", "queries", "--position-weights", "dcg", "--shards", 2),
            {"n_shards": 2},
            {"pairs": dr.Pairs("queries", "dcg")},
        ),
    ],
)
def test_spd_takes_the_parameters_of_its_estimator(
    dranking: Call, letor: Write, tmp_path: Path, options: tuple, steps: dict, parameters: dict
) -> None:
    data, model = letor(), tmp_path / "m.json"
    code, out, err = dranking("train", "spd", data, *SHORT, *options, "-o", model, "--json")
    assert code == 0, err
    expected = dr.SPD(sgd={**STEPS, **steps}, **parameters).fit(dr.open_dataset(data))
    np.testing.assert_array_equal(weights_of(model), expected.to_model().weights)
    assert json.loads(out)["objective"] == expected.objective_


@pytest.mark.parametrize("form", ["count", "toml", "json", "named", "list"])
def test_lcra_takes_views(dranking: Call, partly: Path, tmp_path: Path, form: str) -> None:
    (tmp_path / "v.toml").write_text('text = ["f1", "f3", 1]\nlinks = ["f4", "f5", "f6"]\n')
    (tmp_path / "v.json").write_text('{"text": [0, 1, 2], "links": [3, 4, 5]}')
    (tmp_path / "list.json").write_text('[["f1", "f2", "f3"], ["f4", "f5", "f6"]]')
    said = {
        "count": ["3"],
        "toml": [tmp_path / "v.toml"],
        "json": [tmp_path / "v.json"],
        "named": ["text=f1,f2,f3", "links=f4,f5,f6"],
        "list": [tmp_path / "list.json"],
    }[form]
    views = 3 if form == "count" else [[0, 1, 2], [3, 4, 5]]
    options = [part for text in said for part in ("--views", text)]
    more = ("--mu", "0.5", "--n-labelled", 2, "--n-unlabelled", 3)
    model = tmp_path / "m.json"
    code, _, err = dranking("train", "lcra", partly, *SHORT, *options, *more, "-o", model)
    assert code == 0, err
    ranker = dr.LCRA(mu=0.5, views=views, n_labelled=2, n_unlabelled=3, sgd=STEPS)
    expected = ranker.fit(dr.open_dataset(partly)).to_model()
    np.testing.assert_array_equal(weights_of(model), expected.weights)


def test_lcra_takes_unlabelled_data(dranking: Call, letor: Write, tmp_path: Path) -> None:
    data, other, model = letor(), letor("other.txt", 5), tmp_path / "m.json"
    code, _, err = dranking("train", "lcra", data, "--unlabelled", other, *SHORT, "-o", model)
    assert code == 0, err
    expected = dr.LCRA(sgd=STEPS).fit(dr.open_dataset(data), unlabelled=dr.open_dataset(other))
    np.testing.assert_array_equal(weights_of(model), expected.to_model().weights)


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (["two"], "write a number, a .toml or .json file"),
        (["a=f1", "f2"], "write a number, a .toml or .json file"),
        (["missing.toml"], "cannot be read"),
        (["{folder}/bad.json"], "cannot be read"),
        (["{folder}/shape.json"], "list of features"),
        (["{folder}/true.json"], "list of features"),
        (["a=f1,f2", "b=f3"], "in none or in several: f4, f5, f6"),
    ],
)
def test_views_that_are_wrong(
    dranking: Call, partly: Path, tmp_path: Path, views: list[str], message: str
) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "shape.json").write_text('{"a": "f1"}')
    (tmp_path / "true.json").write_text('{"a": [true], "b": ["f2"]}')
    options = [part for text in views for part in ("--views", text.format(folder=tmp_path))]
    code, _, err = dranking("train", "lcra", partly, *options, "-o", tmp_path / "m.json")
    assert code == 2
    assert message in " ".join(err.split())
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize("ending", ["json", "csv", "svg", "png"])
def test_the_learning_curve_is_written(
    dranking: Call, letor: Write, tmp_path: Path, ending: str
) -> None:
    data, curve = letor(), tmp_path / f"curve.{ending}"
    call = (
        "train", "spd", data, *SHORT, "--validation", letor("v.txt", 1), "--metric", "map",
        "--patience", 2, "--learning-curve", curve, "-o", tmp_path / "m.json",
    )  # fmt: skip
    code, _, err = dranking(*call)
    assert code == 0, err
    provenance = json.loads((tmp_path / "m.json").read_text())["provenance"]
    points = provenance["learning_curve"]
    assert [point["n_steps"] for point in points] == [500, 1000]
    assert all(0 < point["validation"] <= 1 for point in points)
    written = []
    if ending == "json":
        written = json.loads(curve.read_text())
    elif ending == "csv":
        with curve.open(newline="") as file:
            written = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    else:
        assert curve.read_bytes().lstrip()[:5] in (b"<?xml", b"\x89PNG\r")
    if written:  # models hold no times
        assert all(point.pop("seconds") > 0 for point in written)
        assert written == points
    (tmp_path / "m.json").unlink()
    code, _, err = dranking(*call)
    assert code == 2
    assert f"curve.{ending}" in "".join(err.split())
    assert not (tmp_path / "m.json").exists()


def test_a_curve_of_no_known_form(dranking: Call, letor: Write, tmp_path: Path) -> None:
    call = ("train", "spd", letor(), "--learning-curve", tmp_path / "c.abc", "-o", tmp_path / "m")
    code, _, err = dranking(*call)
    assert code == 2
    assert "choose from" in err


def test_patience_without_validation_data(dranking: Call, letor: Write, tmp_path: Path) -> None:
    code, _, err = dranking("train", "spd", letor(), "--patience", 2, "-o", tmp_path / "m")
    assert code == 2
    assert "validation" in err


def test_training_goes_on_from_a_checkpoint(dranking: Call, letor: Write, tmp_path: Path) -> None:
    data, checkpoint = letor(), tmp_path / "c.npz"
    models = []
    for name in "ab":
        call = ("train", "spd", data, *SHORT, "--checkpoint", checkpoint, "-o", tmp_path / name)
        assert dranking(*call)[0] == 0
        models.append(json.loads((tmp_path / name).read_text()))
    assert models[0] == models[1]  # seconds too: nothing was trained again
    call = ("train", "spd", data, *SHORT, "--seed", 1, "--checkpoint", checkpoint)
    code, _, err = dranking(*call, "-o", tmp_path / "c")
    assert code == 2
    assert "other random_state" in err


def test_a_diverging_training_writes_nothing(dranking: Call, letor: Write, tmp_path: Path) -> None:
    call = ("train", "spd", letor(), *SHORT, "--loss", "squared", "--eta0", "1e4")
    with np.errstate(all="ignore"):
        code, _, err = dranking(*call, "--regularization", "1e-5", "-o", tmp_path / "m")
    assert code == 2
    assert "Lower eta0" in err
    assert not (tmp_path / "m").exists()


def test_where_newtons_method_ends(dranking: Call, letor: Write, tmp_path: Path) -> None:
    data, model = letor(), tmp_path / "m.json"
    for name, ranker in ("ranksvm", dr.RankSVM), ("ranklogistic", dr.RankLogistic):
        code, _, err = dranking(
            "train", name, data, "--tol", "0.1", "--max-iter", 90, "-o", model, "--overwrite"
        )
        assert code == 0, err
        expected = ranker(tol=0.1, max_iter=90).fit(dr.open_dataset(data)).to_model()
        np.testing.assert_array_equal(weights_of(model), expected.weights)


@pytest.mark.parametrize(
    ("name", "estimator", "n_checked"),
    [
        ("spd", dr.SPD, 8),
        ("lcra", dr.LCRA, 11),
        ("ranksvm", dr.RankSVM, 3),
        ("ranklogistic", dr.RankLogistic, 2),
    ],
)
def test_help_names_the_defaults_of_the_estimator(
    name: str, estimator: type, n_checked: int
) -> None:
    command = get_command(app).commands["train"].commands[name]  # type: ignore[attr-defined]
    defaults = {**inspect.signature(estimator).parameters}
    if "sgd" in defaults:
        defaults |= inspect.signature(dr.SGD).parameters | inspect.signature(dr.Pairs).parameters
    checked = []
    for option in command.params:
        named = re.search(r"Default: (\S+)\.$", option.help or "")
        if named and option.name in defaults:
            default = defaults[option.name].default
            shown = type(default)(named[1]) if isinstance(default, (int, float)) else named[1]
            assert shown == default, option.name
            checked.append(option.name)
    assert len(checked) >= n_checked, checked


@pytest.mark.parametrize("name", ["spd", "lcra"])
def test_every_parameter_has_an_option(name: str) -> None:
    command = get_command(app).commands["train"].commands[name]  # type: ignore[attr-defined]
    options = {option.name for option in command.params}
    classes = ({"spd": dr.SPD, "lcra": dr.LCRA}[name], dr.SGD, dr.Pairs)
    parameters = {p for each in classes for p in inspect.signature(each).parameters}
    assert parameters - options == {"warm_start", "sgd", "pairs"}


TUNED = ("--regularization", "10^-3..10^-2", "--folds", 2)


def test_tune_lcra_is_the_call_of_python(dranking: Call, partly: Path, tmp_path: Path) -> None:
    (tmp_path / "v.toml").write_text('text = ["f1", "f2", "f3"]\nlinks = ["f4", "f5", "f6"]\n')
    options = ("--mu", "0,0.5", "--eta0", "auto,0.01", "--views", tmp_path / "v.toml", "--seed", 4)
    model, figure = tmp_path / "m.json", tmp_path / "f.svg"
    files = ("-o", model, "--figure", figure)
    code, out, err = dranking(
        "tune", partly, "--model", "lcra", *TUNED, *options, *SHORT, *files, "--json"
    )
    assert code == 0, err
    expected = dr.tune(
        dr.open_dataset(partly),
        model="lcra",
        grid={"regularization": [1e-3, 1e-2], "mu": [0, 0.5], "eta0": [None, 0.01]},
        parameters={"sgd": STEPS, "views": [[0, 1, 2], [3, 4, 5]], "random_state": 4},
        validation=dr.QueryKFold(2, 4),
    )
    assert json.loads(out) == expected.as_json()
    assert len(expected.grid) == 8
    np.testing.assert_array_equal(weights_of(model), expected.model.weights)
    assert "mu 0.5, eta0 0.01" in figure.read_text()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("ranksvm", "--max-iter", 1), "warning: not at the minimum after 1 steps"),
        (("max-margin", "--max-iter", 1), "warning: the duality gap is"),
        (("spd", *SHORT), "warning: documents of a query differ by"),
        (
            ("max-margin", "--solver", "sgd", "--epochs", 1),
            "warning: documents of a query differ by",
        ),
    ],
)
@pytest.mark.parametrize("action", ["ignore", "error"])
def test_trainings_that_end_early_or_go_slowly_are_noted(
    dranking: Call, tmp_path: Path, call: tuple[Any, ...], said: str, action: Any
) -> None:
    """Whatever filters of warnings the environment sets (PYTHONWARNINGS)."""
    values = np.random.default_rng(0).normal(size=(40, 2)) * [1.0, 1e6]
    rows = [f"{n % 3} qid:{n // 10} 1:{a} 2:{b}\n" for n, (a, b) in enumerate(values)]
    (tmp_path / "data.txt").write_text("".join(rows))
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        name, *options = call
        output = ("-o", tmp_path / "m.json")
        code, _, err = dranking("train", name, tmp_path / "data.txt", *options, *output)
    assert code == 0, err
    assert said in err


def test_tune_spd_notes_what_diverges(dranking: Call, letor: Write, tmp_path: Path) -> None:
    options = ("--loss", "squared", "--eta0", "auto,1e6", *SHORT, "-o", tmp_path / "m.json")
    code, out, err = dranking("tune", letor(), "--model", "spd", *TUNED, *options)
    assert code == 0, err
    assert "warning: training diverged with regularization 0.001, eta0 1e+06" in err
    assert "auto" in out
    alone = ("--loss", "squared", "--eta0", "1e6", *SHORT, "-o", tmp_path / "n.json")
    code, _, err = dranking("tune", letor(), "--model", "spd", *TUNED, *alone)
    assert (code, (tmp_path / "n.json").exists()) == (2, False)
    assert "diverged with every setting" in err


def test_tune_refuses_options_of_other_models(dranking: Call, letor: Write, tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    for options, message in (
        (("--mu", "1"), "spd has no mu to choose"),
        (("--views", "2"), "spd takes no views"),
        (("--unlabelled", letor("u.txt")), "spd does not learn from unlabelled data"),
    ):
        code, _, err = dranking("tune", letor(), "--model", "spd", *TUNED, *options, "-o", model)
        assert code == 2
        assert message in " ".join(err.split())
