"""`train max-margin` and `bounds`: options reach the library, and all of its answer is printed."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

import dranking as dr
from dranking.cli.app import app
from dranking.max_margin.bounds.caps import Caps
from dranking.max_margin.bounds.report import risk_bounds

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

PAIRS = ("--loss", "pairwise")
SHORT = ("--epochs", 2, "--steps-per-epoch", 50)
STEPS = {"n_epochs": 2, "steps_per_epoch": 50}


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ((), {}),
        (("--loss", "ndcg", "--convention", "letor4"), {"loss": "ndcg", "convention": "letor4"}),
        (
            (*PAIRS, "--margins", "ranks", "--solver", "cutting-planes", "--tol", "1e-3"),
            {"loss": "pairwise", "margins": "ranks", "solver": "cutting-planes", "tol": 1e-3},
        ),
        (
            (*PAIRS, "--levels", 5, "--regularization", "2^-6"),
            {"loss": "pairwise", "n_levels": 5, "regularization": 2.0**-6},
        ),
        (
            ("--solver", "sgd", "--epochs", 2, "--steps-per-epoch", 50, "--shards", 2, "--seed", 4),
            {"solver": dr.SGD(n_epochs=2, steps_per_epoch=50, n_shards=2), "random_state": 4},
        ),
        (("--form", "sum", "--max-iter", 900), {"form": "sum", "max_iter": 900}),
        (("--normalize", "standard"), {"normalize": "standard"}),
        (
            ("--solver", "sgd", *SHORT, "--eta0", "2^-3", "--average", "all"),
            {"solver": {**STEPS, "eta0": 0.125, "average": "all"}},
        ),
    ],
)
def test_train_takes_the_parameters_of_the_estimator(
    dranking: Call, letor: Write, tmp_path: Path, options: tuple, parameters: dict
) -> None:
    data, model = letor(), tmp_path / "m.json"
    code, out, err = dranking("train", "max-margin", data, *options, "-o", model, "--json")
    assert code == 0, err
    expected = dr.MaxMarginRanker(**parameters).fit(dr.open_dataset(data))
    np.testing.assert_array_equal(
        json.loads(model.read_text())["weights"], expected.to_model().weights
    )
    facts = json.loads(out)
    assert facts["objective"] == expected.objective_
    assert (facts["model"], facts["n_features"]) == ("max-margin", 6)


def test_a_descent_is_validated_drawn_and_taken_up_again(
    dranking: Call, letor: Write, tmp_path: Path
) -> None:
    data, other, model = letor(), letor("v.txt", 1), tmp_path / "m.json"
    curve, checkpoint = tmp_path / "c.json", tmp_path / "c"
    options = ("--solver", "sgd", *SHORT, "--validation", other, "--metric", "map", "--patience", 2)
    files = ("-o", model, "--learning-curve", curve, "--checkpoint", checkpoint)
    code, _, err = dranking("train", "max-margin", data, *options, *files)
    assert code == 0, err
    expected = dr.MaxMarginRanker(solver=STEPS)
    judged = dr.Validation(dr.open_dataset(other), "map", patience=2)
    expected.fit(dr.open_dataset(data), validation=judged)
    np.testing.assert_array_equal(json.loads(model.read_text())["weights"], expected.coef_)
    points = json.loads(curve.read_text())
    assert [p["validation"] for p in points] == [p.validation for p in expected.learning_curve_]
    assert checkpoint.exists()
    for more, message in (
        (("--regularization", 1), "checkpoint is of a training with other regularization"),
        (("--solver", "cutting-planes"), "takes --solver sgd|only --solver sgd has"),
    ):
        code, _, err = dranking("train", "max-margin", data, *options, *files, "--overwrite", *more)
        assert code == 2
        assert re.search(message, " ".join(err.split()))


@pytest.mark.parametrize("solver", ["auto", "cutting-planes"])
def test_steps_are_refused_for_other_solvers(
    dranking: Call, letor: Write, tmp_path: Path, solver: str
) -> None:
    call = ("train", "max-margin", letor(), "--solver", solver, "--shards", 3)
    code, _, err = dranking(*call, "-o", tmp_path / "m.json")
    assert code == 2
    assert "n_shards: only --solver sgd takes steps" in " ".join(err.split())


def test_tune_is_the_call_of_python(dranking: Call, letor: Write, tmp_path: Path) -> None:
    data, model = letor(), tmp_path / "m.json"
    options = ("--regularization", "10^-2..10^0", "--folds", 2, "--seed", 4, "--metric", "ndcg@5")
    own = ("--loss", "ndcg", "--tol", "1e-3", "--convention", "letor4")
    call = ("tune", data, "--model", "max-margin", *options, "-o", model)
    code, out, err = dranking(*call, *own, "--json")
    assert code == 0, err
    expected = dr.tune(
        dr.open_dataset(data),
        model="max-margin",
        grid=[0.01, 0.1, 1],
        parameters={"loss": "ndcg", "tol": 1e-3, "convention": "letor4", "random_state": 4},
        convention="letor4",
        metric="ndcg@5",
        validation=dr.QueryKFold(2, 4),
    )
    assert json.loads(out) == expected.as_json()
    np.testing.assert_array_equal(json.loads(model.read_text())["weights"], expected.model.weights)
    for more, message in (
        (("--loss", "hinge"), "loss is 'hinge'; choose pairwise, ap, ndcg"),
        (("--eta0", "1"), "max-margin has no eta0 to choose"),
        (("--label", "sign"), "max-margin takes no label while it is tuned"),
        (("--model", "spd", "--margins", "ranks"), "spd takes no margins while it is tuned"),
    ):
        code, _, err = dranking(*call, "--overwrite", *more)
        assert code == 2
        assert message in " ".join(err.split())


def test_help_names_the_defaults_and_every_parameter() -> None:
    command = get_command(app).commands["train"].commands["max-margin"]  # type: ignore[attr-defined]
    defaults = {**inspect.signature(dr.SGD).parameters}
    defaults |= inspect.signature(dr.MaxMarginRanker).parameters
    assert set(defaults) <= {option.name for option in command.params}
    checked = []
    for option in command.params:
        named = re.search(r"Default: (\S+)\.$", option.help or "")
        if option.name in defaults and named:
            assert named[1] == str(defaults[option.name].default), option.name
            checked.append(option.name)
    assert {"margins", "form", "solver", "tol", "max_iter", "average", "n_epochs"} <= set(checked)


@pytest.fixture
def trained(letor: Write, tmp_path: Path) -> tuple[Path, Path]:
    data, path = letor(), tmp_path / "m.json"
    dr.MaxMarginRanker(0.1).fit(dr.open_dataset(data)).to_model().save(path)
    return path, data


CAPS = ("--norm", 10, "--feature-norm", 50, "--max-documents", 9, "--min-documents", 2,
        "--levels", 3, "--level-sizes", "9,9,4")  # fmt: skip


@pytest.mark.parametrize(
    ("options", "caps"), [((), Caps()), (CAPS, Caps(10.0, 50.0, 9, 2, 3, (9, 9, 4)))]
)
def test_bounds_prints_what_the_library_says(
    dranking: Call, trained: tuple[Path, Path], options: tuple, caps: Caps
) -> None:
    code, out, err = dranking("bounds", *trained, "--delta", 0.1, *options, "--json")
    assert code == 0, err
    model, data = trained
    expected = risk_bounds(dr.load_model(model), dr.open_dataset(data), delta=0.1, caps=caps)
    found = json.loads(out)
    assert found["approximation"] == (caps == Caps())
    assert len(found["bounds"]) == len(expected.bounds) == 19
    for bound, printed in zip(expected.bounds, found["bounds"], strict=True):
        assert printed["log10_value"] == pytest.approx(bound.log_value / np.log(10))
        assert printed["vacuous"] == bound.is_vacuous
        assert printed["empirical_risk"] == bound.empirical


@pytest.mark.parametrize("printed", [False, True])
def test_bounds_in_tables(dranking: Call, trained: tuple[Path, Path], printed: bool) -> None:
    code, out, _ = dranking("bounds", *trained, *(["--as-printed"] if printed else []))
    assert code == 0
    assert "an approximation, no bound" in out
    assert "≥" not in out  # lists of eight documents have 40,320 rankings
    text = " ".join(out.replace("│", " ").split())
    assert ("printed" in text) == printed
    assert ("contraction" in text) != printed
    code, out, _ = dranking("bounds", *trained, *CAPS)
    assert "approximation" not in out
    assert "9,9,4" in out


def test_bounds_of_long_lists_in_tables(dranking: Call, tmp_path: Path) -> None:
    """N, and how much a bound is at least that is not known."""
    rng = np.random.default_rng(0)
    data, model = tmp_path / "d.txt", tmp_path / "m.json"
    rows = [f"{rng.integers(0, 2)} qid:{i // 12} 1:{rng.random():.3f}" for i in range(36)]
    data.write_text("\n".join(rows) + "\n")
    dr.RankRLS(1.0).fit(dr.open_dataset(data)).to_model().save(model)
    code, out, err = dranking("bounds", model, data, "--max-documents", 12)
    assert code == 0, err
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    found = {row[1]: (row[2], row[6]) for row in cells if len(row) == 10 and row[1]}
    # Pairs of six relevant and six other documents, 12!, C(12, 6), the worst.
    assert set(found) == {"36", "4.79e+08", "924", "1"}
    for n, (empirical, bound) in found.items():
        assert (empirical == "too long") == bound.startswith("≥ ") == (n == "4.79e+08")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--delta", 1.5), 2, "delta is 1.5"),
        (("--level-sizes", "a,b"), 2, "write whole numbers"),
        (("--norm", 1e-6), 3, "give a cap"),
    ],
)
def test_bounds_refuses(
    dranking: Call, trained: tuple[Path, Path], options: tuple, code: int, message: str
) -> None:
    found, _, err = dranking("bounds", *trained, *options)
    assert found == code
    assert message in err
