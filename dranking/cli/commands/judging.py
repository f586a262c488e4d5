"""`evaluate`, `predict` and `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dranking.cli.commands.bilinear import (
    evaluate_collection,
    predict_collection,
    print_evaluation,
)
from dranking.cli.groups import grouped
from dranking.cli.options import (
    DEFAULT_METRICS,
    Convention,
    Data,
    Json,
    Metrics,
    Output,
    Overwrite,
    names_in,
)
from dranking.cli.output import format_value, note, print_json, print_table
from dranking.cli.where import Where
from dranking.errors import UsageError
from dranking.files.commit import check_output_file

if TYPE_CHECKING:
    from dranking.engine.executor import Executor

Queries = Annotated[
    Path | None,
    typer.Option(help="Bilinear models: queries; the documents themselves if left out."),
]
Model = Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL")]


@grouped
def evaluate(
    model: Model,
    data: Data,
    metrics: Metrics = DEFAULT_METRICS,
    convention: Convention = "standard",
    per_query: Annotated[
        Path | None, typer.Option(help="Write the values of each query here, as parquet.")
    ] = None,
    queries: Queries = None,
    qrels: Annotated[
        Path | None,
        typer.Option(help="Bilinear models: judgments; the documents' labels if left out."),
    ] = None,
    where: Where = Where(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Measure how well a model ranks judged data."""
    from dranking.data.open import open_dataset
    from dranking.metrics.per_query import write_per_query
    from dranking.rankers.linear.model import load_model
    from dranking.rankers.models import is_bilinear
    from dranking.tuning.evaluation import evaluate as measure

    if per_query is not None:
        check_output_file(per_query, overwrite)
    if is_bilinear(model):
        found = evaluate_collection(model, data, queries, qrels, metrics, convention)
        if per_query is not None:
            write_per_query(per_query, found.per_query, overwrite)
        print_evaluation(found, as_json)
        return
    with where.running(overwrite) as executor:
        result = measure(
            load_model(model),
            open_dataset(data),
            names_in(metrics),
            convention,
            executor=executor,
        )
    if per_query is not None:
        write_per_query(per_query, result.per_query, overwrite)
        note(f"values of each query written to {per_query}")
    if as_json:
        print_json(result.as_json())
        return
    title = f"{result.n_queries:,} queries, {result.n_excluded:,} excluded, {convention} convention"
    print_table(title, ["metric", "mean"], list(result.metrics.items()))


@grouped
def predict(
    model: Model,
    data: Data,
    output: Output,
    tag: Annotated[str, typer.Option(help="Name of the run in a TREC file.")] = "dranking",
    queries: Queries = None,
    top: Annotated[
        int, typer.Option(min=1, help="Bilinear models: documents written for each query.")
    ] = 1_000,
    where: Where = Where(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Score documents: parquet where the output ends in .parquet, else a TREC run file."""
    from dranking.data.open import open_dataset
    from dranking.data.prediction_files import write_predictions_parquet, write_trec_run
    from dranking.rankers.linear.model import load_model
    from dranking.rankers.models import is_bilinear

    check_output_file(output, overwrite)
    if is_bilinear(model):
        facts = predict_collection(model, data, queries, output, top, tag, overwrite)
        if as_json:
            print_json(facts)
        return
    form = "parquet" if output.suffix == ".parquet" else "trec"
    with where.running(overwrite) as executor:
        dataset = open_dataset(data)
        scored = load_model(model).predict_blocks(dataset, executor=executor)
        if form == "parquet":
            write_predictions_parquet(output, scored, overwrite)
        else:
            write_trec_run(output, scored, tag, overwrite)
    facts = {
        "n_documents": dataset.n_documents,
        "n_queries": dataset.n_queries,
        "output": str(output),
        "format": form,
    }
    if as_json:
        print_json(facts)
    else:
        note(f"{dataset.n_documents:,} scores written to {output} ({form})")


@grouped
def compare(
    a: Annotated[Path, typer.Argument(help="A model, or per-query values.", metavar="A")],
    b: Annotated[Path, typer.Argument(help="Another one.", metavar="B")],
    data: Annotated[
        Path | None, typer.Argument(help="Judged data, to compare models.", metavar="[DATA]")
    ] = None,
    metrics: Metrics = DEFAULT_METRICS,
    convention: Convention = "standard",
    confidence: Annotated[float, typer.Option(help="Of the bootstrap interval.")] = 0.95,
    resamples: Annotated[int, typer.Option(min=1, help="Of the bootstrap.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    where: Where = Where(),
    as_json: Json = False,
) -> None:
    """Compare two models query by query: A minus B, with intervals and tests."""
    from dranking.metrics.compare import compare as compare_values

    with where.running() as executor:
        tables = [_per_query(path, data, metrics, convention, executor) for path in (a, b)]
    result = compare_values(*tables, seed=seed, n_resamples=resamples, confidence=confidence)
    if as_json:
        print_json(result.as_json())
        return
    rows = [
        (
            m.metric,
            m.mean_a,
            m.mean_b,
            f"{m.difference:+.4f} [{m.low:+.4f}, {m.high:+.4f}]",
            f"{format_value(m.p_value)} ({format_value(m.p_holm)})",
            f"{m.wins} / {m.ties} / {m.losses}",
        )
        for m in result.metrics
    ]
    interval = f"A - B [{confidence:.0%}]"
    columns = ["metric", "A", "B", interval, "p (Holm)", "win / tie / loss"]
    print_table(f"A = {a}, B = {b}: {result.n_queries:,} queries", columns, rows)


def _per_query(
    path: Path, data: Path | None, metrics: str, convention: str, executor: Executor
) -> Any:
    """Values of each query: read from parquet, or of a model on the data."""
    from dranking.data.open import open_dataset
    from dranking.metrics.per_query import read_per_query
    from dranking.rankers.linear.model import load_model
    from dranking.tuning.evaluation import evaluate as measure

    if path.suffix == ".parquet":
        return read_per_query(path)
    if data is None:
        raise UsageError(f"{path} is a model: name the judged data to compare on, A B DATA.")
    model, dataset = load_model(path), open_dataset(data)
    names = names_in(metrics)
    return measure(model, dataset, names, convention, executor=executor).per_query
