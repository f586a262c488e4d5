"""Options of `select`: candidates, search and costs.

Options that are not given are None. Then the default of the estimator applies; the help text states
this default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import typer

from dranking.cli.options.cost_files import read_costs
from dranking.cli.options.shared import MemoryLimit, SelectedForms, complete_convention
from dranking.cli.parsing.places import place_of
from dranking.errors import UsageError
from dranking.files.key_values import names_in
from dranking.files.places import Place
from dranking.files.reading import read_bytes


@dataclass(frozen=True)
class Candidates:
    """The features that may be selected."""

    TOPIC: ClassVar[str] = "Candidates"

    start: Annotated[
        str,
        typer.Option(
            help="Features to start with: comma-separated names; or @FILE, either a model (.json) "
            "or a text file with one name per line.",
            metavar="NAMES|@FILE",
        ),
    ] = ""
    forbid: Annotated[
        str,
        typer.Option(
            help="Features that are never selected in any form, given like --start; the name of a "
            "form forbids that form alone.",
            metavar="NAMES|@FILE",
        ),
    ] = ""
    candidates: Annotated[
        int | None,
        typer.Option(
            help="Number of features to score in a round, drawn at random in every round. "
            "Default: all."
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(help="Random seed of --candidates. Default: 0.")] = (
        None
    )
    forms: SelectedForms = ""
    forms_per_feature: Annotated[
        int | None,
        typer.Option(
            help="Largest number of forms of a feature in the model, beside hinges and "
            "products. Default: 1."
        ),
    ] = None

    @property
    def draws(self) -> dict[str, Any]:
        """Parameters of `Search` for candidates that are drawn."""
        return {"candidates": self.candidates, "random_state": self.seed}

    @property
    def feature_forms(self) -> dict[str, Any]:
        """Parameters of `Forms`."""
        names = names_in(self.forms) if self.forms else None
        return {"names": names, "per_feature": self.forms_per_feature}


@dataclass(frozen=True)
class Scoring:
    """The search, and the score of candidates."""

    TOPIC: ClassVar[str] = "Search"

    search: Annotated[
        Literal["forward", "floating", "backward"] | None,
        typer.Option(
            help="forward adds features; floating also drops features that became superfluous; "
            "backward starts with all features and drops some. Default: forward."
        ),
    ] = None
    fitting: Annotated[
        Literal["pre", "back"] | None,
        typer.Option(
            help="Weights fitted to score a candidate: all (pre), or the candidate's own only "
            "(back). Default: pre."
        ),
    ] = None
    rescore: Annotated[
        str | None,
        typer.Option(
            help="Select by a measure of the leave-query-out predictions, such as map or ndcg@10, "
            "among the best candidates by squared error.",
            metavar="MEASURE",
        ),
    ] = None
    rescore_candidates: Annotated[
        int | None,
        typer.Option(help="Number of candidates that --rescore measures in a round. Default: 10."),
    ] = None
    convention: Annotated[
        str | None,
        typer.Option(
            help="Convention of --rescore: standard, letor4, letor3, mslr or trec. "
            "Default: standard.",
            autocompletion=complete_convention,
        ),
    ] = None

    @property
    def search_options(self) -> dict[str, Any]:
        """Parameters of `Search`."""
        return {"kind": self.search, "fitting": self.fitting}

    @property
    def rescore_options(self) -> dict[str, Any]:
        """Parameters of `Rescore`."""
        return {
            "metric": self.rescore,
            "n_candidates": self.rescore_candidates,
            "convention": self.convention,
        }


@dataclass(frozen=True)
class Passing:
    """Options on passes over the data, which do not change what is selected."""

    TOPIC: ClassVar[str] = "Passes over the data"

    prefetch: Annotated[
        int | None,
        typer.Option(
            help="Number of Gram rows to compute in one pass over the data. Default: chosen for "
            "the least time."
        ),
    ] = None
    memory_limit: MemoryLimit = None
    feature_blocks: Annotated[
        int | None,
        typer.Option(
            help="Number of parts into which the features are split. Default: as few as fit into "
            "memory."
        ),
    ] = None
    checkpoint: Annotated[
        Place | None,
        typer.Option(
            help="File that stores the selected features after every round. If the file exists, "
            "the selection continues from there."
        ),
    ] = None


@dataclass(frozen=True)
class Spending:
    """Costs of features, and the budget."""

    TOPIC: ClassVar[str] = "Costs"

    feature_costs: Annotated[
        Place | None,
        typer.Option(
            help="Costs of features, to select by gain per cost: a .csv with feature,cost[,group] "
            "or a .toml with [costs] and [groups]. The cost of a group is paid once.",
        ),
    ] = None
    budget: Annotated[
        float | None, typer.Option(help="Largest total cost of the selected features.")
    ] = None

    def costs(self) -> dict[str, Any]:
        """Parameters of `Costs`; reads the file."""
        if self.feature_costs is None:
            return {"budget": self.budget}
        costs, groups = read_costs(self.feature_costs)
        return {"costs": costs, "groups": groups, "budget": self.budget}


def features_in(text: str) -> list[str]:
    """Parse the names of features in an option.

    Raises
    ------
    UsageError
        If a named file cannot be read.
    """
    if not text.startswith("@"):
        return names_in(text)
    path = place_of(text[1:])
    if path.suffix == ".json":
        return _features_of_model(path)
    try:
        lines = read_bytes(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{text}: the names of features cannot be read ({error}).") from error
    return [line.strip() for line in lines if line.strip()]


def _features_of_model(path: Place) -> list[str]:
    """The features of a model, in the order of their selection if that is recorded."""
    from dranking.models.linear.model import load_model

    model = load_model(path)
    names, selected = list(model.feature_names), model.provenance.get("selected", ())
    if len(selected) == len(names):
        in_data_order = dict(zip(sorted(selected), names, strict=True))
        names = [in_data_order[i] for i in selected]
    return names
