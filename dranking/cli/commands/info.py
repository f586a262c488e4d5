"""`dranking info`."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dranking.cli.feature_profiles import feature_facts, print_features
from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.shared import Json
from dranking.cli.output import print_facts, print_json, print_table
from dranking.cli.parsing.option_groups import grouped
from dranking.files.places import Place
from dranking.files.requests import request

if TYPE_CHECKING:
    from dranking.data.column_constants import ColumnConstants
    from dranking.data.dataset import Dataset
    from dranking.ingestion.rows.row_rules import HasConstants


@grouped
def info(
    path: Annotated[
        Place | None, typer.Argument(help="Data or a model. Default: print versions.")
    ] = None,
    all_blocks: Annotated[
        bool,
        typer.Option(
            "--all-blocks", help="Look at the features in all blocks, not in at most 64 of them."
        ),
    ] = False,
    columns: ColumnOptions = ColumnOptions(),
    as_json: Json = False,
) -> None:
    """Describe data or a model, or print versions.

    For data, the range, the share of zeros and the number of distinct values of each feature are
    shown, with a scaling to try.
    """
    model = None if path is None else _model_facts(path)
    if path is not None and model is None:
        _show_data(path, columns, all_blocks, as_json)
        return
    facts = model or _versions()
    if as_json:
        print_json(facts)
    else:
        print_facts(str(path or "dranking"), _shown(facts))
        if "weights" in facts:
            shown, headings = [facts["feature_names"], facts["weights"]], ["feature", "weight"]
            if facts["missing_values"] != "an error":
                shown.append(facts["values_for_missing"])
                headings.append(f"missing value ({facts['constants']['policy']})")
            print_table("weights", headings, list(zip(*shown, strict=True)))


def _shown(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that fit into a table."""
    return {k: v for k, v in facts.items() if not isinstance(v, (list, dict))}


def _show_data(path: Place, columns: ColumnOptions, all_blocks: bool, as_json: bool) -> None:
    dataset = columns.open(path)
    facts = {
        "kind": type(dataset).__name__,
        "n_documents": dataset.n_documents,
        "n_queries": dataset.n_queries,
        "n_features": dataset.n_features,
        "n_blocks": dataset.n_blocks,
        **_segments(dataset),
        "n_unlabelled": dataset.n_unlabelled,
        "sparse": dataset.is_sparse,
        "missing_values": _missing(dataset.constants),
        "origins": _origins(dataset),
        "scaling": ", ".join(t.kind for t in dataset.transforms) or "none",
        "fingerprint": dataset.fingerprint,
        "columns": asdict(dataset.roles),
        "feature_names": list(dataset.feature_names),
        **_constants(dataset.constants),
    }
    features = feature_facts(dataset, path, columns.words, all_blocks=all_blocks)
    if as_json:
        print_json({**facts, **features})
    else:
        print_facts(str(path), _shown(facts))
        print_features(features, dataset.n_blocks)


def _missing(constants: ColumnConstants | None) -> str:
    """What stands for missing values, in words."""
    if constants is None or not constants.fills:
        return "an error"
    n_told = sum(constants.indicators.tolist())
    n_filled = sum(constants.gaps) - n_told
    told = f"; {n_told:,} features tell of them" if n_told else ""
    return (
        f"the {constants.policy} of {n_filled:,} features; of others, an error without --null{told}"
    )


def _origins(known: HasConstants) -> str:
    """The numbers that are subtracted from columns, in words."""
    from dranking.errors import listed
    from dranking.ingestion.rows.row_rules import origins_of_columns

    return (
        listed([f"{name}: {at:.17g}" for name, at in origins_of_columns(known).items()]) or "none"
    )


def _constants(constants: ColumnConstants | None) -> dict[str, Any]:
    """The record of the values for missing ones; nothing without one."""
    return {} if constants is None else {"constants": constants.model_dump(mode="json")}


def _segments(dataset: Dataset) -> dict[str, int]:
    """Facts about the segments of a dataset directory; none for other data."""
    from dranking.data.store.dataset import StoredDataset

    if not isinstance(dataset, StoredDataset):
        return {}
    return {
        "n_segments": dataset.manifest.n_segments,
        "n_writes": len(dataset.manifest.writers),
        "largest_segment": dataset.index.largest_segment,
    }


def _model_facts(path: Place) -> dict[str, Any] | None:
    """Facts of a model; None if the path is no model."""
    from dranking.models.linear.model import load_model
    from dranking.models.load import is_bilinear

    if is_bilinear(path):
        return _bilinear_facts(path)
    if path.suffix != ".json" or not request(path, path.is_file):
        return None
    model = load_model(path)
    return {
        "kind": model.kind,
        "n_features": len(model.weights),
        "missing_values": _missing(model.constants),
        "origins": _origins(model),
        "scaling": ", ".join(t.kind for t in model.transforms) or "none",
        "ranker": model.provenance.get("ranker", "unknown"),
        "feature_names": list(model.feature_names),
        "weights": list(model.weights),
        "values_for_missing": model.of_factors(model.constants.values if model.constants else ()),
        **_constants(model.constants),
        "provenance": model.provenance,
    }


def _bilinear_facts(path: Place) -> dict[str, Any]:
    from dranking.bilinear.model import load_bilinear_model

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

    tables = ("numpy", "pyarrow", "scipy", "zarr")
    names = ("dranking", "dask", "distributed", "fsspec", "numba", *tables, "universal-pathlib")
    return {**{name: version(name) for name in names}, "python": platform.python_version()}
