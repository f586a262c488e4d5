"""Options of the rankers that learn from sampled pairs, as `train` and `tune` take them.

What is not said is None: the estimator's own default, which the help names in parentheses.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from dranking.cli.options import names_in
from dranking.errors import UsageError
from dranking.files.json_files import parse_json

Unlabelled: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Data whose pairs the views shall agree on, labels not looked at; DATA's own "
        "unlabelled documents if left out."
    ),
]


@dataclass(frozen=True)
class Steps:
    """How many steps are taken, and what becomes of them."""

    average: Annotated[
        Literal["second-half", "all", "none"] | None,
        typer.Option(help="Steps that the model is the mean of (second-half)."),
    ] = None
    n_epochs: Annotated[int | None, typer.Option("--epochs", help="Epochs (10).")] = None
    steps_per_epoch: Annotated[
        int | None, typer.Option(help="Steps of an epoch (one per document, at least 100,000).")
    ] = None
    shards: Annotated[
        int | None, typer.Option(help="Parts trained on their own and averaged each epoch (1).")
    ] = None


@dataclass(frozen=True)
class Pairs(Steps):
    """Which pairs steps are taken on."""

    label: Annotated[
        Literal["sign", "difference"] | None,
        typer.Option(help="What score differences are compared with (sign)."),
    ] = None
    sampling: Annotated[
        Literal["pairs", "queries"] | None,
        typer.Option(help="What is drawn with equal probability (pairs)."),
    ] = None
    position_weights: Annotated[
        Literal["equal", "dcg"] | None,
        typer.Option(help="dcg: pairs count by the ideal rank of their better document (equal)."),
    ] = None


@dataclass(frozen=True)
class Stochastic(Pairs):
    """What steps are taken, on which pairs."""

    loss: Annotated[
        Literal["hinge", "squared-hinge", "logistic", "squared"] | None,
        typer.Option(help="Of a pair (hinge)."),
    ] = None


@dataclass(frozen=True)
class Projection:
    """Of spd alone."""

    projection: Annotated[
        bool | None, typer.Option("--projection", help="Stay in the ball that holds the minimum.")
    ] = None


@dataclass(frozen=True)
class Views:
    """Of lcra alone."""

    views: Annotated[
        list[str] | None,
        typer.Option(
            help="How many views, drawn at random (2); or a .toml or .json file of view = "
            "[features]; or NAME=FEATURE,FEATURE,... once for each view.",
            metavar="VIEWS",
        ),
    ] = None
    n_labelled: Annotated[int | None, typer.Option(help="Labelled pairs of a step (1).")] = None
    n_unlabelled: Annotated[int | None, typer.Option(help="Unlabelled pairs of a step (5).")] = None


def parse_views(texts: list[str]) -> int | list[list[str | int]]:
    """Views as `LCRA` takes them: a number, or the features of each.

    Raises
    ------
    UsageError
        If the text is neither, or the file holds something else.
    """
    if len(texts) == 1 and texts[0].isdecimal():
        return int(texts[0])
    if len(texts) == 1 and Path(texts[0]).suffix in (".toml", ".json"):
        return _views_of_file(Path(texts[0]))
    if not all("=" in text for text in texts):
        raise UsageError(
            f"--views {' '.join(texts)}: write a number, a .toml or .json file, or "
            "NAME=FEATURE,FEATURE once for each view."
        )
    return [[*names_in(text.partition("=")[2])] for text in texts]


def _views_of_file(path: Path) -> list[list[str | int]]:
    try:
        text = path.read_text(encoding="utf-8")
        found: Any = tomllib.loads(text) if path.suffix == ".toml" else parse_json(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--views {path}: cannot be read ({error}).") from error
    groups = list(found.values()) if isinstance(found, dict) else found
    if not isinstance(groups, list) or not all(
        isinstance(group, list) and all(type(feature) in (str, int) for feature in group)
        for group in groups
    ):
        raise UsageError(
            f"--views {path}: write a list of features, names or 0-based indices, for each view."
        )
    return groups
