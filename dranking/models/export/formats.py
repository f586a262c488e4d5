"""Export and import of linear models by the name of the format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from pydantic import ValidationError

from dranking.data.transforms import Hinge, Log, Quantile
from dranking.errors import DataError, UsageError, problems_in
from dranking.files.json_files import read_json
from dranking.files.places import AnyPlace, as_place
from dranking.models.export.elasticsearch import ElasticsearchModel, elasticsearch
from dranking.models.export.expressions import python, sql, vespa
from dranking.models.export.onnx import onnx
from dranking.models.export.ranklib import ranklib
from dranking.models.export.solr import STORE, SolrModel, solr
from dranking.models.export.terms import (
    Bent,
    Term,
    check_float32,
    check_forms,
    other_than_zero,
    terms_of,
)
from dranking.models.linear.model import MAX_MODEL_BYTES, LinearModel

Format: TypeAlias = Literal[
    "solr", "elasticsearch", "opensearch", "ranklib", "vespa", "onnx", "sql", "python"
]
FORMATS: tuple[Format, ...] = get_args(Format)

_WRITERS: dict[str, Callable[[Sequence[Term], str], str | bytes]] = {
    "solr": solr,
    "elasticsearch": elasticsearch,
    "opensearch": elasticsearch,
    "ranklib": ranklib,
    "vespa": vespa,
    "onnx": onnx,
    "sql": sql,
    "python": python,
}
_ZERO_FOR_MISSING = ("solr", "elasticsearch", "opensearch", "ranklib")
"""Formats whose features are 0 where an engine finds no value, and that cannot say otherwise."""
_IN_FLOAT32 = ("solr", "elasticsearch", "opensearch", "ranklib", "onnx")
_FORMS: dict[str, tuple[type[Bent], ...]] = {
    "vespa": (Log, Hinge),
    "onnx": (Log, Hinge),
    "sql": (Log, Hinge),
    "python": (Log, Hinge, Quantile),
}
"""Scalings that are not linear and that a format can express."""
_READERS: dict[str, type[Any]] = {
    "solr": SolrModel,
    "elasticsearch": ElasticsearchModel,
    "opensearch": ElasticsearchModel,
}
SUFFIXES: dict[Format, str] = {
    "solr": ".json",
    "elasticsearch": ".json",
    "opensearch": ".json",
    "ranklib": ".txt",
    "vespa": ".profile",
    "onnx": ".onnx",
    "sql": ".sql",
    "python": ".py",
}
"""Usual file suffix of every format."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def export_model(
    model: LinearModel,
    form: Format,
    *,
    name: str = "dranking",
    feature_names: Mapping[str, str] | None = None,
    missing_as_zero: bool = False,
    store: str | None = None,
) -> str | bytes:
    """Export a model to the format of an engine.

    The engine's scores equal `LinearModel.predict` up to float32 rounding. So do scores of
    documents with missing values where the training data lacks values, too: None or NaN in Python,
    NULL in SQL, NaN in Vespa and ONNX. The models of Solr, Elasticsearch, OpenSearch and RankLib
    have no such values, and these engines take 0.

    Parameters
    ----------
    model
        A linear model on raw features, on features scaled by their standard deviation or by their
        least and largest values, or, for ``"vespa"``, ``"onnx"``, ``"sql"`` and ``"python"``, on
        logarithms and hinges of features; for ``"python"`` also on quantiles.
    form
        ``"solr"``, ``"elasticsearch"``, ``"opensearch"``, ``"ranklib"``, ``"vespa"``, ``"onnx"``,
        ``"sql"`` or ``"python"``.
    name
        Name of the model in the engine: letters, digits, ``_``, ``-`` and ``.``.
    feature_names
        Names of features in the engine, for the features whose names differ.
    missing_as_zero
        Export to an engine that takes 0 for missing values although another value stood for them in
        the training.
    store
        Name of the feature store that has the features, for ``"solr"`` only. By default that of the
        model, if it was imported from Solr with one, or else Solr's default store.

    Returns
    -------
    Text, or bytes for ``"onnx"``.

    Raises
    ------
    UsageError
        If the engine cannot express the model or a name, takes other values for missing ones than
        the training, or the format is unknown; or a store is given for another engine.
    """
    if form not in _WRITERS:
        raise UsageError(f"format {form!r} is unknown; choose one of {', '.join(FORMATS)}.")
    if hasattr(model, "to_model"):
        model = model.to_model()
    if hasattr(model, "named_steps") or hasattr(model, "best_estimator_"):
        raise UsageError(
            f"a {type(model).__name__} is exported by way of its model: "
            "export_model(dranking.to_model(pipeline), ...), which folds scalers and selectors "
            "into the model."
        )
    if not isinstance(model, LinearModel):
        raise UsageError(
            f"a {type(model).__name__} cannot be exported: all formats hold linear models, with a "
            "weight for every feature."
        )
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a model cannot be called {name!r}: use letters, digits, '_', '-' and '.', a letter "
            "first."
        )
    if store is not None and (form != "solr" or not store):
        raise UsageError("store is the name of a feature store of Solr: give it with format solr.")
    terms = terms_of(model, feature_names)
    check_forms(model, terms, form, _FORMS.get(form, ()))
    zeroed = zero_for_missing(model, form)
    if zeroed and not missing_as_zero:
        raise UsageError(
            f"{zeroed}. Give the features of the engine these default values, or accept the zeros, "
            "and export with --missing-as-zero (in Python missing_as_zero=True, for retrain "
            "export.missing_as_zero); or export to vespa, onnx, sql or python."
        )
    if form in _IN_FLOAT32:
        check_float32(terms, form)
    if form == "solr":
        return solr(terms, name, store or model.provenance.get(STORE))
    return _WRITERS[form](terms, name)


def zero_for_missing(model: LinearModel, form: Format) -> str:
    """A sentence on missing values that an engine takes for 0; empty if it takes none for 0.

    Parameters
    ----------
    model
        The model that is exported.
    form
        The format of the engine.
    """
    values = other_than_zero(terms_of(model)) if form in _ZERO_FOR_MISSING else ""
    if not values:
        return ""
    return f"{form} takes a missing value for 0, and in the training it stood for {values}"


def import_model(path: AnyPlace, form: Format) -> LinearModel:
    """Read a linear model of Solr, Elasticsearch or OpenSearch.

    Parameters
    ----------
    path
        File with the JSON that was sent to the engine, or that it answers for one model.
    form
        ``"solr"``, ``"elasticsearch"`` or ``"opensearch"``.

    Raises
    ------
    UsageError
        If the format cannot be imported.
    DataError
        If the file cannot be read or is no such model; the message names the wrong entry.
    """
    if form not in _READERS:
        raise UsageError(f"{form!r} cannot be imported; choose one of {', '.join(_READERS)}.")
    file = as_place(path)
    try:
        content = read_json(file, MAX_MODEL_BYTES)
        stored: Any = _READERS[form].model_validate(content)
        model: LinearModel = stored.to_model()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise DataError(
            f"{file}: not a linear model of {form}: {problems_in(error, 'model')}."
        ) from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{file}: {error}.") from error
    except KeyError as error:
        raise DataError(f"{file}: the feature {error} has no weight.") from error
    return model
