"""`evaluate` and `predict` for bilinear models, which rank collections instead of data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dranking.cli.output import note, print_json, print_line, print_table, progress_shown
from dranking.errors import UsageError
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.metrics.conventions import Convention


def evaluate_collection(
    path: Place,
    docs: Place,
    queries: Place | None,
    qrels: Place | None,
    metrics: str | None,
    convention: Convention,
) -> Any:
    """Evaluate a bilinear model on judgments, or on the labels of the documents.

    Returns
    -------
    A `BilinearEvaluation`.
    """
    from dranking.bilinear.evaluation import evaluate_bilinear
    from dranking.bilinear.texts.preferences import read_qrels, same_class
    from dranking.models.evaluation import DEFAULT_METRICS

    with progress_shown():
        model, documents, asked = _opened(path, docs, queries)
        if qrels is not None:
            preferences = read_qrels(qrels, asked or documents, documents)
        elif asked is None:
            preferences = same_class(documents)  # type: ignore[assignment]
        else:
            raise UsageError("--queries needs judgments: name them with --qrels.")
        return evaluate_bilinear(
            model,
            documents,
            preferences,
            queries=asked,
            metric=metrics or DEFAULT_METRICS,
            convention=convention,
        )


def print_evaluation(result: Any, as_json: bool) -> None:
    """Print the measures, the test error, and how many queries were trained on."""
    summary = result.per_query.summary()
    if as_json:
        overlap = result.trained_on.as_json()
        print_json({**summary.as_json(), "error": result.error, "trained_on": overlap})
        return
    n, excluded = summary.n_queries, summary.excluded
    rows = [(name, mean, f"{n - excluded[name]:,}") for name, mean in summary.metrics.items()]
    rows.append(("test error", result.error, ""))
    print_table(f"{n:,} queries", ["metric", "mean", "queries that count"], rows)
    print_line(result.trained_on.text)


def predict_collection(
    path: Place,
    docs: Place,
    queries: Place | None,
    output: Place,
    top: int,
    tag: str,
    overwrite: bool,
    form: Literal["parquet", "csv", "trec"],
) -> dict[str, Any]:
    """Write the best documents of each query; return facts about the file."""
    from dranking.bilinear.evaluation import best_blocks
    from dranking.metrics.prediction_files import write_predictions

    with progress_shown():
        model, documents, asked = _opened(path, docs, queries)
        scored = best_blocks(model, documents, top, queries=asked)
        write_predictions(output, form, scored, tag, overwrite)
    n_queries = (asked or documents).n_documents
    note(f"the best {top:,} documents of {n_queries:,} queries written to {output} ({form})")
    facts = {"n_documents": documents.n_documents, "n_queries": n_queries}
    return {**facts, "output": str(output), "format": form}


def _opened(path: Place, docs: Place, queries: Place | None) -> tuple[Any, Any, Any]:
    from dranking.bilinear.model import load_bilinear_model
    from dranking.bilinear.texts.open_collection import open_collection

    model = load_bilinear_model(path)
    documents = open_collection(docs, model.vectorizer)
    asked = None if queries is None else open_collection(queries, model.query_vectorizer)
    return model, documents, asked
