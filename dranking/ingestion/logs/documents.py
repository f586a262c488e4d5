"""Documents in the JSON of search engines, and in JSON rows.

Sources: "Logging feature scores" in the documentation of the learning-to-rank plugins of
Elasticsearch and OpenSearch, and "Extracting features" in the guide of Apache Solr.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dranking.data.roles import (
    DOC_ID,
    DOCUMENT_NAMES,
    GRADE_NAMES,
    QID,
    QUERY_NAMES,
    RELEVANCE,
    WEIGHT,
    Columns,
)
from dranking.ingestion.logs.features import (
    FeatureReader,
    LogError,
    is_encodable,
    is_value,
    split_features,
)

__all__: list[str] = []

LOGGED, SOLR = "_ltrlog", "[features]"

_NOT_GRADES: Final = ("score",)  # the score of the engine

HOW_TO_NAME = (
    'Write the id of the query beside it, as {"query_id": "q1", "response": {...}}; or give '
    "--judgements of dranking ingest (in Python RowRules(judgements=...)), whose queries come in "
    "the order of the responses."
)
"""Advice on a response that names no query."""


class Document(NamedTuple):
    """A document of a query: its ids, grade and weight, and its features.

    A response that names no query has a `response`, its number among such responses of the range;
    otherwise `response` is -1.
    """

    query: str | int | None
    response: int
    document: str | int | None
    grade: float
    weight: float
    features: dict[str, float]


class DocumentReader:
    """Finds the documents in values of a log, and counts the responses that name no query."""

    def __init__(self, columns: Columns) -> None:
        self.features = FeatureReader(columns)
        self.n_unnamed = 0
        self._query = _names(columns.qid, QID, QUERY_NAMES)
        self._document = _names(columns.docid, DOC_ID, DOCUMENT_NAMES)
        grades = [name for name in GRADE_NAMES if name not in _NOT_GRADES]
        self._grade = _names(columns.relevance, RELEVANCE, grades)
        self._weight = _names(columns.weight, WEIGHT, (WEIGHT,))
        # The keys of a document of Solr are its stored fields, such as the weight of a product.
        self._solr_grade = _names(columns.relevance, RELEVANCE, ())
        self._solr_weight = _names(columns.weight, WEIGHT, ())
        self._has_docid = columns.docid is not None
        # A key of a role is never a feature, whatever key the caller names for the role: a feature
        # "label" would tell the model what it has to learn.
        self._roles = {*QUERY_NAMES, *DOCUMENT_NAMES, *grades, WEIGHT} - {*columns.exclude}
        self._roles |= {*self._query, *self._document, *self._grade, *self._weight}

    def documents(self, value: Any, query: str | int | None = None) -> Iterator[Document]:
        """The documents of a value: a response, several responses, a hit, or a row.

        Parameters
        ----------
        value
            The value.
        query
            Id of the query, if what the value lies in names it.

        Raises
        ------
        LogError
            If the value is none of these, or wrong.
        """
        if isinstance(value, list):
            for each in value:
                yield from self.documents(each, query)
            return
        if not isinstance(value, dict):
            raise LogError(f"is {value!r:.60}, and must be an object: a response, a hit or a row.")
        own = self._id(value, self._query, "query id")
        query = query if own is None else own
        hits, docs = _list_in(value, "hits", "hits"), _list_in(value, "response", "docs")
        if isinstance(value.get("error"), dict):
            raise LogError(f"is no response but an error of the engine: {value['error']!r:.200}")
        if isinstance(value.get("responses"), list):
            yield from self.documents(value["responses"], query)
        elif hits is not None or docs is not None:
            header = value.get("responseHeader")
            parameters = header.get("params") if isinstance(header, dict) else None
            if query is None and isinstance(parameters, dict):
                query = self._id(parameters, self._query, "query id")
            yield from self._response(hits or docs or [], query)
        elif _is_hit(value):
            yield self._entry(value, query, -1)
        else:
            yield from self._inside(value, query)

    def _inside(self, value: Mapping[str, Any], query: str | int | None) -> Iterator[Document]:
        """The documents of a response, or of a list of hits, beside a query id; or of a row."""
        inner = [each for each in map(_body_of, value.values()) if _has_documents(each)]
        if len(inner) == 1 and SOLR not in value:
            if isinstance(inner[0], list):
                yield from self._response(inner[0], query)
            else:
                yield from self.documents(inner[0], query)
        elif [] in (value.get("hits"), value.get("docs")):
            yield from self._response([], query)
        else:
            yield self._row(value, query)

    def _response(self, entries: Sequence[Any], query: str | int | None) -> Iterator[Document]:
        number = -1
        if query is None and not any(_names_query(each, self._query) for each in entries):
            number = self.n_unnamed
            self.n_unnamed += 1
        for entry in entries:
            if not isinstance(entry, dict) or not _is_hit(entry):
                shown = entry.get("_id", entry.get("id")) if isinstance(entry, dict) else entry
                raise LogError(
                    f"document {shown!r:.60} has no logged features: neither fields._ltrlog, which "
                    "ext.ltr_log adds to the search (Elasticsearch, OpenSearch), nor [features], "
                    "which Solr adds by fl=id,[features]."
                )
            yield self._entry(entry, query, number)

    def _entry(self, entry: Mapping[str, Any], query: str | int | None, response: int) -> Document:
        """A hit of Elasticsearch or OpenSearch, or a document of Solr."""
        own = self._id(entry, self._query, "query id")
        query = query if own is None else own
        is_solr = SOLR in entry
        names = self._document
        if DOC_ID in names:
            names = ("id", *names) if is_solr else ("_id",)
        document = self._id(entry, names, "document id")
        if document is None and isinstance(entry.get("_source"), dict):
            document = self._id(entry["_source"], names, "document id")
        if query is None and response < 0:
            raise LogError(
                f"document {document!r:.60} belongs to no response and names no query. Write the "
                'id of the query beside it, as {"query_id": "q1", "_id": "d1", ...}.'
            )
        if document is None and self._has_docid:
            raise LogError(f"a document of query {query!r} has no id ({' or '.join(names)}).")
        try:
            found = self.features.logged(_solr(entry[SOLR]) if is_solr else _logged(entry))
        except LogError as error:
            raise LogError(f"document {document!r:.60}: {error}") from error
        grades = self._solr_grade if is_solr else self._grade
        weights = self._solr_weight if is_solr else self._weight
        grade, weight = _value(entry, grades, "grade"), _value(entry, weights, "weight")
        return Document(query, response, document, grade, weight, found)

    def _row(self, row: Mapping[str, Any], query: str | int | None) -> Document:
        document = self._id(row, self._document, "document id")
        if query is None:
            if row.get("format") == "dranking-model":
                raise LogError("this is a model, which stands where data is expected.")
            shown = ", ".join([*row][:6])
            raise LogError(
                f"the row names no query ({' or '.join(self._query)}); its keys are {shown:.200}. "
                "--qid-column (Columns(qid=...), for retrain data.qid) names another key."
            )
        values: Any = row.get("features")
        if values is None and "features" in row:
            values = {}
        elif not isinstance(values, dict | list):
            values = {name: value for name, value in row.items() if name not in self._roles}
        found = self.features.nested(values)
        grade = _value(row, self._grade, "grade")
        return Document(query, -1, document, grade, _value(row, self._weight, "weight"), found)

    def _id(self, value: Mapping[str, Any], names: Sequence[str], what: str) -> str | int | None:
        found = next((value[name] for name in names if value.get(name) is not None), None)
        if isinstance(found, str) and found and is_encodable(found):
            return found
        if found is None or (isinstance(found, int) and not isinstance(found, bool)):
            return found
        raise LogError(f"a {what} is {found!r:.60}; ids are texts or whole numbers.")


def _value(value: Mapping[str, Any], names: Sequence[str], what: str) -> float:
    """A grade or a weight; NaN if there is none."""
    found = next((value[name] for name in names if value.get(name) is not None), math.nan)
    if isinstance(found, str) and is_value(found):
        found = float(found)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise LogError(f"a {what} is {found!r:.60}, and must be a number.")
    try:
        return float(found)
    except OverflowError as error:
        raise LogError(f"a {what} is beyond float64; limit it.") from error


def _names(chosen: str | None, default: str, known: Sequence[str]) -> tuple[str, ...]:
    """Keys of a role: the one that the caller names, or those that tools use; none without it."""
    if chosen is None:
        return ()
    return (chosen,) if chosen != default else tuple(known)


def _list_in(value: Mapping[str, Any], outer: str, inner: str) -> list[Any] | None:
    found = value.get(outer)
    entries = found.get(inner) if isinstance(found, dict) else None
    return entries if isinstance(entries, list) else None


def _is_hit(value: Mapping[str, Any]) -> bool:
    fields = value.get("fields")
    return SOLR in value or (isinstance(fields, dict) and LOGGED in fields)


def _body_of(value: Any) -> Any:
    """The response in what a client answers, which is its body; another value as it is."""
    body = value.get("body") if isinstance(value, dict) else None
    return body if _has_documents(body) else value


def _has_documents(value: Any) -> bool:
    """Whether a value is a response, or a list that begins with a hit."""
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict) and _is_hit(value[0])
    return isinstance(value, dict) and (
        _is_hit(value)
        or _list_in(value, "hits", "hits") is not None
        or _list_in(value, "response", "docs") is not None
        or isinstance(value.get("error"), dict)
    )


def _names_query(entry: Any, names: Sequence[str]) -> bool:
    return isinstance(entry, dict) and any(entry.get(name) is not None for name in names)


def _logged(hit: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Names and values of all log entries of a hit; an entry without a value is missing."""
    logs = hit["fields"][LOGGED]
    for log in logs if isinstance(logs, list) else [logs]:
        for entries in log.values() if isinstance(log, dict) else ():
            if isinstance(entries, dict):  # the form of the plugin's first versions
                yield from entries.items()
                continue
            for entry in entries if isinstance(entries, list) else [None]:
                if not isinstance(entry, dict) or "name" not in entry:
                    raise LogError(f"an entry of its log is {entry!r:.60}, without a name.")
                yield entry["name"], entry.get("value")


def _solr(features: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(features, dict):
        return iter(features.items())
    if not isinstance(features, str):
        raise LogError(f"[features] is {features!r:.60}, and must be a text.")
    return ((name, float(value)) for name, value in split_features(features))
