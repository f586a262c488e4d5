"""`train bilinear`: weights of word pairs, learned from preferences over a collection."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer

from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.shared import Json, Output, Overwrite
from dranking.cli.output import note, print_json, print_table
from dranking.cli.parsing.numbers import parse_number
from dranking.cli.parsing.option_groups import given, grouped
from dranking.errors import UsageError
from dranking.files.places import Place
from dranking.files.writing.output_checks import check_output_directory

Docs = Annotated[
    Place,
    typer.Argument(
        help="Documents: parquet with a column text (and id, label), a collection directory, or "
        "a sparse matrix (.npz).",
        metavar="DOCS",
    ),
]
Queries = Annotated[
    Place | None,
    typer.Option(help="Queries, in a form of DOCS. Default: the documents are the queries."),
]
Qrels = Annotated[
    Place | None, typer.Option(help="Graded judgments: lines with query, 0, document and grade.")
]


@dataclass(frozen=True)
class Source:
    """Options that say which documents a query prefers."""

    queries: Queries = None
    qrels: Qrels = None
    tuples: Annotated[
        Place | None,
        typer.Option(help="Parquet table with the columns query, preferred and other."),
    ] = None
    labels: Annotated[
        bool, typer.Option("--labels", help="Every document prefers documents of its own label.")
    ] = False


@dataclass(frozen=True)
class Text:
    """Options of the vectorizer."""

    n_words: Annotated[
        int | None,
        typer.Option(
            "--words", min=1, help="Number of words, the most frequent ones. Default: 10,000."
        ),
    ] = None
    stop_words: Annotated[
        Literal["english", "none"] | None, typer.Option(help="Words to ignore. Default: english.")
    ] = None


@dataclass(frozen=True)
class Estimator:
    """Parameters of `BilinearRanker`."""

    regularization: Annotated[
        float | None,
        typer.Option(
            parser=parse_number, metavar="L", help="lambda, such as 1e-5 or 2^-17. Default: 1e-5."
        ),
    ] = None
    learning_rate: Annotated[
        float | None, typer.Option(help="C of the step lengths C / sqrt(t). Default: 200.")
    ] = None
    schedule: Annotated[
        Literal["decaying", "constant"] | None,
        typer.Option(help="Schedule of the step lengths. Default: decaying."),
    ] = None
    period: Annotated[
        int | None, typer.Option(help="Number of steps between two shrinkages of W. Default: 100.")
    ] = None
    n_steps: Annotated[
        int | None, typer.Option("--steps", help="Total number of steps. Default: 100,000.")
    ] = None
    start: Annotated[
        Literal["identity", "zero"] | None,
        typer.Option(help="W at the start. Default: identity."),
    ] = None
    support: Annotated[
        Literal["diagonal"] | None,
        typer.Option(help="Entries that W may have. Default: all."),
    ] = None
    penalty: Annotated[
        Literal["entries", "rows"] | None,
        typer.Option(help="Shrink every entry, or the norm of every row. Default: entries."),
    ] = None
    refit: Annotated[
        bool, typer.Option("--refit", help="Train again without lambda on the remaining entries.")
    ] = False
    n_shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            help="Parts of the queries that are trained on their own and averaged after each "
            "epoch. Default: 1.",
        ),
    ] = None
    n_epochs: Annotated[
        int | None, typer.Option("--epochs", help="Number of epochs. Default: 10.")
    ] = None
    random_state: Annotated[int, typer.Option("--seed", help="Seed of all random draws.")] = 0
    checkpoint: Annotated[
        Place | None,
        typer.Option(
            help="Directory that stores the training after every epoch. If the directory exists, "
            "the training continues from there."
        ),
    ] = None


@grouped
def bilinear(
    docs: Docs,
    output: Output,
    source: Source,
    text: Text,
    estimator: Estimator,
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Train a sparse bilinear ranker: weights of word pairs, learned from preferences."""
    from dranking.bilinear.estimator import BilinearRanker
    from dranking.bilinear.texts.open_collection import open_collection
    from dranking.models.trained_queries import check_queries_place

    _check_source(source)
    check_output_directory(output, overwrite)
    check_queries_place(output)
    started = time.perf_counter()
    options = given(text)
    if options.get("stop_words") == "none":
        options["stop_words"] = None
    ranker = BilinearRanker(**given(estimator))
    with execution.running(overwrite) as executor:
        documents = open_collection(docs, **options)
        queries = None
        if source.queries is not None:
            queries = open_collection(source.queries, documents.vectorizer)
        preferences = read_preferences(source, queries or documents, documents)
        if preferences.n_excluded:
            note(
                f"{preferences.n_excluded:,} excluded: empty, not in the collections, or without "
                "another document to compare"
            )
        ranker.fit(documents, preferences, queries=queries, executor=executor)
    ranker.to_model().save(output, overwrite=overwrite)
    last = ranker.learning_curve_[-1]
    facts: dict[str, Any] = {
        "model": "bilinear",
        "n_features": ranker.n_features_in_,
        "objective": last.objective,
        "seconds": time.perf_counter() - started,
        "n_steps": last.n_steps,
        "n_entries": last.n_stored,
        "density": last.density,
        "n_excluded": preferences.n_excluded,
    }
    if as_json:
        print_json(facts)
    else:
        print_table(f"{output}", ["", "value"], list(facts.items()))


def read_preferences(source: Any, queries: Any, documents: Any) -> Any:
    """Read the preferences that the options name."""
    from dranking.bilinear.texts.preferences import read_qrels, read_tuples, same_class

    if source.qrels is not None:
        return read_qrels(source.qrels, queries, documents)
    if source.tuples is not None:
        return read_tuples(source.tuples, queries, documents)
    return same_class(documents)


def _check_source(source: Source) -> None:
    named = [n for n, value in asdict(source).items() if value and n != "queries"]
    if len(named) != 1:
        raise UsageError("give exactly one of --qrels, --tuples and --labels.")
    if source.labels and source.queries is not None:
        raise UsageError(
            "--labels applies only without --queries; with --queries, give --qrels or --tuples."
        )
