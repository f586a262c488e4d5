"""Options of the rankers that learn from sampled pairs, for `train` and `tune`.

Options that are not given are None. Then the default of the estimator applies; the help text states
this default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import typer

from dranking.cli.parsing.places import place_of
from dranking.errors import UsageError
from dranking.files.json_files import parse_json
from dranking.files.key_values import names_in
from dranking.files.places import Place
from dranking.files.reading import read_bytes

Unlabelled: TypeAlias = Annotated[
    Place | None,
    typer.Option(
        help="Data with pairs that the views shall agree on; labels are ignored. Default: the "
        "unlabelled documents of DATA."
    ),
]


@dataclass(frozen=True)
class Steps:
    """The number of steps, and averaging."""

    TOPIC: ClassVar[str] = "Steps"

    average: Annotated[
        Literal["second-half", "all", "none"] | None,
        typer.Option(help="Steps whose weights are averaged for the model. Default: second-half."),
    ] = None
    n_epochs: Annotated[
        int | None, typer.Option("--epochs", help="Number of epochs. Default: 10.")
    ] = None
    steps_per_epoch: Annotated[
        int | None,
        typer.Option(help="Steps of an epoch. Default: one per document, at least 100,000."),
    ] = None
    n_shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            help="Parts of the data that are trained on their own and averaged after each epoch. "
            "Default: 1.",
        ),
    ] = None


@dataclass(frozen=True)
class Pairs(Steps):
    """The distribution of the sampled pairs, and their labels."""

    TOPIC: ClassVar[str] = "Pairs"

    label: Annotated[
        Literal["sign", "difference"] | None,
        typer.Option(
            help="Label of a pair: sign or size of the difference in relevance. Default: sign."
        ),
    ] = None
    sampling: Annotated[
        Literal["pairs", "queries"] | None,
        typer.Option(help="All pairs, or all queries, are equally likely. Default: pairs."),
    ] = None
    position_weights: Annotated[
        Literal["equal", "dcg"] | None,
        typer.Option(
            help="Weights of pairs; dcg: by the ideal rank of the better document. Default: equal."
        ),
    ] = None


@dataclass(frozen=True)
class Stochastic(Pairs):
    """Options of SPD and LCRA: steps, pairs and loss."""

    loss: Annotated[
        Literal["hinge", "squared-hinge", "logistic", "squared"] | None,
        typer.Option(help="Loss of a pair. Default: hinge."),
    ] = None


@dataclass(frozen=True)
class Projection:
    """Options of SPD only."""

    projection: Annotated[
        bool | None,
        typer.Option(
            "--projection", help="Project the weights into the ball that holds the minimum."
        ),
    ] = None


@dataclass(frozen=True)
class Views:
    """Options of LCRA only."""

    TOPIC: ClassVar[str] = "Views"

    views: Annotated[
        list[str] | None,
        typer.Option(
            help="Number of random views; or a .toml or .json file with view = [features]; or "
            "NAME=FEATURE,FEATURE,... once for each view. Default: 2.",
            metavar="VIEWS",
        ),
    ] = None
    n_labelled: Annotated[
        int | None, typer.Option(help="Labelled pairs of a step. Default: 1.")
    ] = None
    n_unlabelled: Annotated[
        int | None, typer.Option(help="Unlabelled pairs of a step. Default: 5.")
    ] = None


SGD_OPTIONS = ("n_epochs", "steps_per_epoch", "eta0", "average", "n_shards")
"""Options that are parameters of `SGD`."""

PAIR_OPTIONS = ("sampling", "position_weights", "label")
"""Options that are parameters of `Pairs`."""


def in_groups(options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `SPD` and `LCRA` that options stand for: steps and pairs are groups."""
    groups = {"sgd": SGD_OPTIONS, "pairs": PAIR_OPTIONS}
    found: dict[str, Any] = {
        group: {name: options[name] for name in names if name in options}
        for group, names in groups.items()
    }
    flat = {k: v for k, v in options.items() if k not in (*SGD_OPTIONS, *PAIR_OPTIONS)}
    return flat | {group: values for group, values in found.items() if values}


def parse_views(texts: list[str]) -> int | list[list[str | int]]:
    """Parse views for `LCRA`: a number, or the features of every view.

    Raises
    ------
    UsageError
        If the text has another form, or a file cannot be read or has another form.
    """
    if len(texts) == 1 and texts[0].isdecimal():
        return int(texts[0])
    if len(texts) == 1 and place_of(texts[0]).suffix in (".toml", ".json"):
        return _views_of_file(place_of(texts[0]))
    if not all("=" in text for text in texts):
        raise UsageError(
            f"--views {' '.join(texts)}: write a number, a .toml or .json file, or "
            "NAME=FEATURE,FEATURE once for each view."
        )
    return [[*names_in(text.partition("=")[2])] for text in texts]


def _views_of_file(path: Place) -> list[list[str | int]]:
    try:
        text = read_bytes(path).decode()
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
