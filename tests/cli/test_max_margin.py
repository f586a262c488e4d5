"""`train max-margin` and `bounds`: options reach the library, and all of its answer is printed."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dranking as dr
from dranking.bounds.report import Caps, risk_bounds

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ((), {}),
        (("--loss", "ndcg", "--convention", "letor4"), {"loss": "ndcg", "convention": "letor4"}),
        (
            ("--loss", "pairwise", "--margins", "ranks", "--solver", "bundle", "--tol", "1e-3"),
            {"loss": "pairwise", "margins": "ranks", "solver": "bundle", "tol": 1e-3},
        ),
        (
            ("--loss", "pairwise", "--levels", 5, "--regularization", "2^-6"),
            {"loss": "pairwise", "n_levels": 5, "regularization": 2.0**-6},
        ),
        (
            ("--solver", "sgd", "--epochs", 2, "--steps-per-epoch", 50, "--shards", 2, "--seed", 4),
            {"solver": "sgd", "n_epochs": 2, "steps_per_epoch": 50, "shards": 2, "seed": 4},
        ),
        (("--form", "sum", "--max-iter", 900), {"form": "sum", "max_iter": 900}),
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
    text = " ".join(out.replace("│", " ").split())
    assert ("printed" in text) == printed
    assert ("contraction" in text) != printed
    code, out, _ = dranking("bounds", *trained, *CAPS)
    assert "approximation" not in out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--delta", 1.5), 2, "delta is 1.5"),
        (("--level-sizes", "a,b"), 2, "write whole numbers"),
        (("--norm", 1e-6), 3, "it is no cap"),
    ],
)
def test_bounds_refuses(
    dranking: Call, trained: tuple[Path, Path], options: tuple, code: int, message: str
) -> None:
    found, _, err = dranking("bounds", *trained, *options)
    assert found == code
    assert message in err
