"""`train bilinear`: weights of word pairs, learned from preferences over a collection."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dranking.cli.execution_options import ExecutionOptions
from dranking.cli.number_options import parse_number
from dranking.cli.option_groups import given, grouped
from dranking.cli.options import Json, Output, Overwrite
from dranking.cli.output import note, print_json, print_table
from dranking.errors import UsageError
from dranking.files.commit import check_output_directory

Docs = Annotated[
    Path,
    typer.Argument(
        help="Documents: parquet with a column text (and id, label), a collection directory, or "
        "a sparse matrix (.npz).",
        metavar="DOCS",
    ),
]
Queries = Annotated[
    Path | None, typer.Option(help="Queries, as DOCS; the documents themselves if left out.")
]
Qrels = Annotated[Path | None, typer.Option(help="Graded judgments: query 0 document grade.")]


@dataclass(frozen=True)
class Source:
    """Which document a query prefers."""

    queries: Queries = None
    qrels: Qrels = None
    tuples: Annotated[
        Path | None, typer.Option(help="Parquet with the columns query, preferred and other.")
    ] = None
    labels: Annotated[
        bool, typer.Option("--labels", help="Documents prefer those of their own label.")
    ] = False


@dataclass(frozen=True)
class Text:
    """How text becomes vectors."""

    n_words: Annotated[
        int | None, typer.Option("--words", min=1, help="Most frequent words taken (10,000).")
    ] = None
    stop_words: Annotated[
        Literal["english", "none"] | None, typer.Option(help="Words left out (english).")
    ] = None


@dataclass(frozen=True)
class Estimator:
    """Parameters of `BilinearRanker`."""

    regularization: Annotated[
        float | None,
        typer.Option(parser=parse_number, metavar="L", help="lambda, as 1e-5 or 2^-17 (1e-5)."),
    ] = None
    rate: Annotated[float | None, typer.Option(help="C of the steps C / sqrt(t) (200).")] = None
    schedule: Annotated[
        Literal["decaying", "constant"] | None, typer.Option(help="Of the steps (decaying).")
    ] = None
    period: Annotated[int | None, typer.Option(help="Steps between shrinkages (100).")] = None
    n_steps: Annotated[int | None, typer.Option("--steps", help="In all (100,000).")] = None
    start: Annotated[
        Literal["identity", "zero"] | None, typer.Option(help="First weights (identity).")
    ] = None
    support: Annotated[
        Literal["diagonal"] | None, typer.Option(help="Entries that W may have (all).")
    ] = None
    penalty: Annotated[
        Literal["entries", "rows"] | None, typer.Option(help="What is shrunk (entries).")
    ] = None
    refit: Annotated[
        bool, typer.Option("--refit", help="Train again on the entries that are left.")
    ] = False
    shards: Annotated[
        int | None, typer.Option(help="Parts of the queries trained side by side, and averaged.")
    ] = None
    n_epochs: Annotated[
        int | None, typer.Option("--epochs", help="After each shards are averaged (10).")
    ] = None
    seed: Annotated[int, typer.Option(help="Of all random draws.")] = 0
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep the training here each epoch, and go on from it.")
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
    """Sparse bilinear ranker: word pairs weighted by preferences."""
    from dranking.data.texts.open_collection import open_collection
    from dranking.rankers.bilinear.estimator import BilinearRanker

    _check_source(source)
    check_output_directory(output, overwrite)
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
        if preferences.n_left_out:
            note(f"{preferences.n_left_out:,} left out: empty, not there, or nothing to compare")
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
        "n_left_out": preferences.n_left_out,
    }
    if as_json:
        print_json(facts)
    else:
        print_table(f"{output}", ["", "value"], list(facts.items()))


def read_preferences(source: Any, queries: Any, documents: Any) -> Any:
    """The preferences that the options name."""
    from dranking.data.texts.preferences import read_qrels, read_tuples, same_class

    if source.qrels is not None:
        return read_qrels(source.qrels, queries, documents)
    if source.tuples is not None:
        return read_tuples(source.tuples, queries, documents)
    return same_class(documents)


def _check_source(source: Source) -> None:
    named = [n for n, value in asdict(source).items() if value and n != "queries"]
    if len(named) != 1:
        raise UsageError("name what is preferred: one of --qrels, --tuples or --labels.")
    if source.labels and source.queries is not None:
        raise UsageError("--labels is for documents as queries; with --queries give --qrels.")
