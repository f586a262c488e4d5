"""`ingest` and `info`."""

from __future__ import annotations

import platform
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dranking.cli.options import Json, Output, Overwrite
from dranking.cli.output import print_json, print_table, progress_shown


class Null(StrEnum):
    """What the value NULL means."""

    error = "error"
    zero = "zero"
    minimum = "minimum"


class Normalize(StrEnum):
    """Scaling of the features, recorded with the data."""

    none = "none"
    query_minmax = "query-minmax"
    standard = "standard"


def ingest(
    files: Annotated[
        list[Path],
        typer.Argument(help="Text or parquet files that are one data set.", metavar="FILE..."),
    ],
    output: Output,
    null: Annotated[Null, typer.Option(help="What the value NULL means.")] = Null.error,
    normalize: Annotated[Normalize, typer.Option(help="Scaling to apply.")] = Normalize.none,
    regroup: Annotated[
        bool, typer.Option("--regroup", help="Sort the rows of a query together.")
    ] = False,
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Number of features, where files do not show it.")
    ] = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Store the nonzero values only.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Store ranking data as a dataset directory, verified and split into blocks of queries."""
    from dranking.data.ingest import ingest as ingest_files
    from dranking.engine.progress import report

    with progress_shown():
        dataset, n_without_pairs = ingest_files(
            files,
            output,
            null=null.value,
            normalize=normalize.value,
            regroup=regroup,
            n_features=n_features,
            sparse=sparse,
            overwrite=overwrite,
            progress=lambda done: report("ingest", done, None),
        )
    facts = {
        "n_documents": dataset.n_documents,
        "n_queries": dataset.n_queries,
        "n_features": dataset.n_features,
        "n_blocks": dataset.n_blocks,
        "n_unlabelled": dataset.n_unlabelled,
        "n_queries_without_pairs": n_without_pairs,
    }
    if as_json:
        print_json(facts)
    else:
        print_table(str(output), ["", "count"], list(_in_words(facts).items()))


def info(
    path: Annotated[
        Path | None, typer.Argument(help="Data or a model; versions if left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a data set or a model holds, or which versions are installed."""
    facts = _versions() if path is None else _facts(path)
    if as_json:
        print_json(facts)
    else:
        shown = {k: v for k, v in facts.items() if not isinstance(v, (list, dict))}
        print_table(str(path or "dranking"), ["", "value"], list(_in_words(shown).items()))
        if "weights" in facts:
            rows = list(zip(facts["feature_names"], facts["weights"], strict=True))
            print_table("weights", ["feature", "weight"], rows)


def _in_words(facts: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("n_").replace("_", " "): value for name, value in facts.items()}


def _facts(path: Path) -> dict[str, Any]:
    from dranking.data.open import open_dataset
    from dranking.rankers.linear.model import load_model
    from dranking.rankers.models import is_bilinear

    if is_bilinear(path):
        return _bilinear_facts(path)
    if path.is_file() and path.suffix == ".json":
        model = load_model(path)
        return {
            "kind": model.kind,
            "n_features": len(model.weights),
            "scaling": ", ".join(t.kind for t in model.transforms) or "none",
            "ranker": model.provenance.get("ranker", "unknown"),
            "feature_names": list(model.feature_names),
            "weights": list(model.weights),
            "provenance": model.provenance,
        }
    dataset = open_dataset(path)
    return {
        "kind": type(dataset).__name__,
        "n_documents": dataset.n_documents,
        "n_queries": dataset.n_queries,
        "n_features": dataset.n_features,
        "n_blocks": dataset.n_blocks,
        "n_unlabelled": dataset.n_unlabelled,
        "sparse": dataset.is_sparse,
        "scaling": ", ".join(t.kind for t in dataset.transforms) or "none",
        "fingerprint": dataset.fingerprint,
        "feature_names": list(dataset.feature_names),
    }


def _bilinear_facts(path: Path) -> dict[str, Any]:
    from dranking.rankers.bilinear.model import load_bilinear_model

    model = load_bilinear_model(path)
    n_query_words, n_words = model.weights.shape
    return {
        "kind": "bilinear",
        "n_query_words": n_query_words,
        "n_words": n_words,
        "n_entries": model.weights.nnz,
        "density": model.density,
        "ranker": model.provenance.get("ranker", "unknown"),
        "takes_text": model.vectorizer is not None,
        "provenance": dict(model.provenance),
    }


def _versions() -> dict[str, Any]:
    from importlib.metadata import version

    names = ("dranking", "dask", "distributed", "numba", "numpy", "pyarrow", "scipy", "zarr")
    return {**{name: version(name) for name in names}, "python": platform.python_version()}
