"""`--normalize`: commands fit the scaling that the estimators fit, and models carry it out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dranking as dr

RANKERS: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
    "select": (("select", "--n-features", 2), lambda **o: dr.GreedyRankRLS(2, **o)),
    "rankrls": (("train", "rankrls"), dr.RankRLS),
    "rankrls grid": (
        ("train", "rankrls", "--regularization", "1,8"),
        lambda **o: dr.RankRLSCV([1.0, 8.0], **o),
    ),
    "ranksvm": (("train", "ranksvm"), dr.RankSVM),
    "ranklogistic": (("train", "ranklogistic"), dr.RankLogistic),
}


@pytest.mark.parametrize("name", RANKERS)
def test_the_scaling_is_fitted_and_kept(
    dranking: Callable[..., tuple[int, str, str]],
    letor: Callable[..., Path],
    tmp_path: Path,
    name: str,
) -> None:
    data, model = letor(), tmp_path / "m.json"
    call, make = RANKERS[name]
    code, _, err = dranking(*call, data, "--normalize", "standard", "--output", model)
    assert code == 0, err
    expected = make(normalize="standard").fit(dr.open_dataset(data)).to_model()
    written = json.loads(model.read_text())
    assert written["weights"] == list(expected.weights)
    assert [t["kind"] for t in written["transforms"]] == ["standard"]


def test_forms_are_not_scaled_again(
    dranking: Callable[..., tuple[int, str, str]], letor: Callable[..., Path], tmp_path: Path
) -> None:
    options = ("--forms", "raw,log", "--normalize", "log", "--output", tmp_path / "m.json")
    code, _, err = dranking("select", letor(), "--n-features", 2, *options)
    assert (code, "give --forms or --normalize" in err) == (2, True)
