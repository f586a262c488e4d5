"""Options of `tune`: how settings are compared, and what belongs to some models only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

import typer

from dranking.cli.options.pairwise import Unlabelled
from dranking.cli.options.shared import Convention, metric_option
from dranking.cli.parsing.numbers import Grid, Steps, parse_grid, parse_seconds, parse_steps
from dranking.cli.parsing.topics import TopicCommand
from dranking.files.places import Place

TuneModel: TypeAlias = Literal[
    "greedy-rankrls",
    "rankrls",
    "ranksvm",
    "ranksvm-hinge",
    "ranklogistic",
    "max-margin",
    "spd",
    "lcra",
]

DEFAULT_MODEL: TuneModel = "greedy-rankrls"

_GREEDY, _ON_STATISTICS = ("greedy-rankrls",), ("greedy-rankrls", "rankrls")
_EXACT = ("ranksvm", "ranksvm-hinge", "ranklogistic", "max-margin")
_PAIRS, _STEPS, _LISTS = ("spd", "lcra"), ("spd", "lcra", "max-margin"), ("max-margin",)
MODELS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("max_features", "rule", "time"), _GREEDY),
    "criterion": _ON_STATISTICS,
    "loss": ("ranksvm", *_STEPS),
    **dict.fromkeys(("tol", "max_iter"), _EXACT),
    **dict.fromkeys(("margins", "n_levels", "form", "solver"), _LISTS),
    **dict.fromkeys(("average", "n_epochs", "steps_per_epoch", "n_shards"), _STEPS),
    **dict.fromkeys(("label", "sampling", "position_weights", "eta0"), _PAIRS),
    "projection": ("spd",),
    **dict.fromkeys(("views", "n_labelled", "n_unlabelled", "unlabelled", "mu"), ("lcra",)),
}
"""Options that only some models take -> these models."""

_OF_PAIRS = ("hinge", "squared-hinge", "logistic", "squared")
LOSSES: Mapping[str, tuple[str, ...]] = {
    "ranksvm": ("squared-hinge", "hinge"),
    "spd": _OF_PAIRS,
    "lcra": _OF_PAIRS,
    "max-margin": ("ap", "pairwise", "ndcg"),
}
"""Models that take `--loss` -> their losses, the default first."""

Loss: TypeAlias = Literal["hinge", "squared-hinge", "logistic", "squared", "pairwise", "ap", "ndcg"]

HELD_OUT = ("validation", "folds", "criterion")
"""Options of which a search takes one at most."""


class TuneCommand(TopicCommand):
    """A command whose help has the options of one model, which `--model` names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `--model` first: `--help` ends the parsing, and shows the options of the model."""
        own = args[: args.index("--")] if "--" in args else args
        for i, word in enumerate(own):
            if word.startswith("--model=") or (word == "--model" and i + 1 < len(own)):
                n = 2 if word == "--model" else 1
                args = [*args[i : i + n], *args[:i], *args[i + n :]]
                break
        return super().parse_args(ctx, args)

    def topic_of(self, parameter: Any, context: Any) -> str | None:
        """The topic of an option, which is the model for options in `MODELS`."""
        models, model = MODELS.get(parameter.name), _model_in(context)
        if models is not None and model not in models:
            return None
        if models is None or parameter.name in HELD_OUT:
            return super().topic_of(parameter, context)
        return f"Model {model}"

    def record_of(self, parameter: Any, context: Any) -> tuple[str, str] | None:
        """The name and the help of an option, with a model's own losses."""
        model = _model_in(context)
        record = super().record_of(parameter, context)
        if record is not None and parameter.name == "loss" and model in LOSSES:
            losses = LOSSES[model]
            return record[0].replace("|".join(get_args(Loss)), "|".join(losses)), (
                f"Loss. Default: {losses[0]}."
            )
        return record


def _model_in(context: Any) -> str:
    return context.params.get("model") or DEFAULT_MODEL


@dataclass(frozen=True)
class Comparison:
    """Options on the comparison of settings."""

    TOPIC: ClassVar[str] = "Comparison of the settings"

    validation: Annotated[
        Place | None,
        typer.Option(help="Choose on this validation data, not by cross-validation."),
    ] = None
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="Number of folds of queries of the cross-validation. Default: 5."),
    ] = None
    criterion: Annotated[
        str | None,
        typer.Option(
            help="Choose by leave-query-out predictions, which are optimistic, since all queries "
            "chose the features: lqo-map, lqo-ndcg@10, ...; or lqo-squared_error, for which a "
            "statistics store is enough."
        ),
    ] = None
    metric: Annotated[str, metric_option("Metric to choose by")] = "ndcg@10"
    convention: Convention = "standard"
    rule: Annotated[
        Literal["best", "smaller"],
        typer.Option(
            help="The best number of features; or the fewest from which on no larger number gains "
            "more than 0.002, or than one standard error of the gain.",
        ),
    ] = "best"
    seed: Annotated[
        int, typer.Option(help="Random seed of the folds, and of the draws of a model.")
    ] = 0


@dataclass(frozen=True)
class OfModels:
    """Options that only some models take, and that `train` has in another form."""

    max_features: Annotated[
        int | None, typer.Option(help="Largest number of features to try. Default: 20.")
    ] = None
    time: Annotated[
        float | None,
        typer.Option(
            parser=parse_seconds,
            metavar="TIME",
            help="Time after which the default search begins nothing more, such as 90s, 10m or 2h. "
            "Default: no limit.",
        ),
    ] = None
    tol: Annotated[
        float | None,
        typer.Option(
            help="Where the solver stops. ranksvm and ranklogistic: this share of the objective "
            "above the minimum, 1e-9 by default. max-margin: this duality gap, relative to the "
            "objective of zero weights, 0.0001 by default."
        ),
    ] = None
    max_iter: Annotated[
        int | None,
        typer.Option(
            help="Largest number of Newton steps or rounds. Default: 200, or 1000 for max-margin."
        ),
    ] = None
    mu: Annotated[
        Grid | None,
        typer.Option(
            parser=parse_grid,
            metavar="GRID",
            help="Strengths of the co-regularisation to try. Default: 0.1.",
        ),
    ] = None
    eta0: Annotated[
        Steps | None,
        typer.Option(
            parser=parse_steps,
            metavar="GRID",
            help="First step lengths 1 / (lambda t0) to try; inf is pure Pegasos, auto follows "
            "from the data. Default: auto.",
        ),
    ] = None
    loss: Annotated[
        Loss | None,
        typer.Option(
            help="Loss. spd and lcra: hinge, squared-hinge, logistic or squared, default hinge; "
            "ranksvm: hinge or squared-hinge, default squared-hinge; max-margin: pairwise, ap or "
            "ndcg, default ap."
        ),
    ] = None
    unlabelled: Unlabelled = None
