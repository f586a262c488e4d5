"""Options of `select`: how features are searched.

What is not said is None: the estimator's own default, which the help names in parentheses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dranking.cli.cost_files import read_costs
from dranking.cli.options import names_in
from dranking.errors import UsageError


@dataclass(frozen=True)
class Candidates:
    """Which features may be selected."""

    start: Annotated[
        str,
        typer.Option(
            help="Features to begin with: names, comma-separated; or @FILE, the features of a "
            "model (.json), or a name a line.",
            metavar="NAMES|@FILE",
        ),
    ] = ""
    forbid: Annotated[
        str,
        typer.Option(help="Features never to select, in the same form.", metavar="NAMES|@FILE"),
    ] = ""
    candidates: Annotated[
        int | None,
        typer.Option(help="Score so many features a round, drawn at random anew each time (all)."),
    ] = None
    seed: Annotated[int | None, typer.Option(help="Of these draws (0).")] = None

    def parameters(self) -> dict[str, Any]:
        """As `GreedyRankRLS` takes them."""
        return {
            "start": features_in(self.start),
            "forbidden": features_in(self.forbid),
            "candidates": self.candidates,
            "random_state": self.seed,
        }


@dataclass(frozen=True)
class Scoring:
    """How features are searched, and what candidates are scored by."""

    search: Annotated[
        Literal["forward", "floating", "backward"] | None,
        typer.Option(
            help="forward adds features; floating also drops those that others make superfluous; "
            "backward begins with all and drops (forward)."
        ),
    ] = None
    fitting: Annotated[
        Literal["pre", "back"] | None,
        typer.Option(
            help="pre scores a candidate with all weights fitted, back with its own alone (pre)."
        ),
    ] = None
    rescore: Annotated[
        str | None,
        typer.Option(
            help="Pick by a measure of the leave-query-out predictions, such as map or ndcg@10, "
            "among the best candidates by squared error.",
            metavar="MEASURE",
        ),
    ] = None
    rescore_candidates: Annotated[
        int | None, typer.Option(help="How many candidates a round that measures (10).")
    ] = None
    convention: Annotated[
        str | None,
        typer.Option(help="Of that measure: standard, letor4, letor3, mslr or trec (standard)."),
    ] = None


@dataclass(frozen=True)
class Spending:
    """What features may cost."""

    feature_costs: Annotated[
        Path | None,
        typer.Option(
            help="What features cost, to pick by gain per cost: a .csv with feature,cost[,group] "
            "or a .toml with [costs] and [groups]. The features of a group are paid once.",
        ),
    ] = None
    budget: Annotated[
        float | None, typer.Option(help="The features selected cost this much at most.")
    ] = None

    def parameters(self) -> dict[str, Any]:
        """As `GreedyRankRLS` takes them."""
        if self.feature_costs is None:
            return {"budget": self.budget}
        costs, groups = read_costs(self.feature_costs)
        return {"feature_costs": costs, "feature_groups": groups, "budget": self.budget}


def features_in(text: str) -> list[str]:
    """The names of features in an option's text.

    Raises
    ------
    UsageError
        If it names a file that cannot be read.
    """
    if not text.startswith("@"):
        return names_in(text)
    path = Path(text[1:])
    if path.suffix == ".json":
        return _features_of_model(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{text}: the names of features cannot be read ({error}).") from error
    return [line.strip() for line in lines if line.strip()]


def _features_of_model(path: Path) -> list[str]:
    """The features that a model weighs, in the order in which they were selected, if they were."""
    from dranking.rankers.linear.model import load_model

    model = load_model(path)
    names, selected = list(model.feature_names), model.provenance.get("selected", ())
    if len(selected) == len(names):
        in_data_order = dict(zip(sorted(selected), names, strict=True))
        names = [in_data_order[i] for i in selected]
    return names
