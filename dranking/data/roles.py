"""Roles of the columns of flat tables: which column is the query id, the relevance, a feature."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dranking.errors import UsageError

QID, DOC_ID, RELEVANCE, WEIGHT, FEATURES = "qid", "docid", "relevance", "weight", "features"
RESERVED = (QID, DOC_ID, RELEVANCE, WEIGHT)
"""Default names of the columns that are not features."""

QUERY_NAMES: Final = ("qid", "query_id", "q_id", "query-id")
DOCUMENT_NAMES: Final = ("docid", "doc_id", "corpus-id")
GRADE_NAMES: Final = ("relevance", "rel", "grade", "label", "score")
"""Names of query ids, document ids and grades in runs, judgements and logs, as dranking,
ir_measures, ranx and BEIR give them."""


@dataclass(frozen=True)
class Roles:
    """Names of the columns that are not features; None if there is no such column."""

    qid: str = QID
    docid: str | None = DOC_ID
    relevance: str | None = RELEVANCE
    weight: str | None = WEIGHT

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are there."""
        roles = (self.qid, self.docid, self.relevance, self.weight)
        return tuple(name for name in roles if name is not None)


class KnownFeatures(NamedTuple):
    """The features of earlier data, by which later data is read.

    Attributes
    ----------
    names
        Their names, in order.
    owner
        What has them, in words, for messages.
    may_lack
        Whether later data may lack some of them, which are missing values then.
    remedy
        What else to do where data lacks some, as the end of a sentence.
    """

    names: tuple[str, ...]
    owner: str
    may_lack: bool = False
    remedy: str = ""


@dataclass(frozen=True)
class Columns:
    """The roles of the columns of a table.

    Every function that reads tables takes it as `columns`; a data set remembers its names.

    Attributes
    ----------
    qid
        Column of the query ids.
    relevance
        Column of the grades. None stands for documents without labels, whatever the columns are.
    labelled
        Whether the column of the grades must be there. If not, the documents of a table without it
        have no labels.
    docid, weight
        Columns of the document ids and of the queries' weights, repeated for the documents of a
        query. Under their default names, ``docid`` and ``weight``, they may be absent. None stands
        for no such column.
    features
        Names of the feature columns in order, or the name of the single column of fixed-size
        lists. None stands for the column of lists named ``features`` or, where there is no such
        column, for all columns without another role, which must be numbers.
    exclude
        Columns to leave out.
    folder_features
        Parquet in folders ``key=value`` only: keys whose values, which are numbers, are features.
    needed
        Names of the features that the caller will read, such as the features of a model; other
        columns without a role are passed over, whatever their type. None stands for all.
    no_index
        Names that are features, such as those of a model, although tools give them to the index of
        a frame.
    score
        Name of the feature that documents are ranked by, which must be there. None stands for none.
    nullable
        Names of the features whose values may be missing, which are NaN in blocks then, for models
        that know values for them. None stands for all features.
    origins
        Numbers to subtract from features before the conversion to float32, by name, such as those
        of a model; or "auto" for those that are found in the data.
    known
        The features of earlier data, to which this data is added: they are found by name, and
        other columns are left out with a line. None stands for no earlier data.
    """

    qid: str = QID
    relevance: str | None = RELEVANCE
    docid: str | None = DOC_ID
    weight: str | None = WEIGHT
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    folder_features: Sequence[str] = ()
    needed: Collection[str] | None = None
    no_index: Collection[str] = ()
    score: str | None = None
    nullable: Collection[str] | None = ()
    known: KnownFeatures | None = None
    labelled: bool = True
    origins: Mapping[str, float] | Literal["auto"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise UsageError if names come as a single text."""
        for name in ("features", "exclude", "folder_features"):
            if isinstance(getattr(self, name), str):
                raise UsageError(f"{name} is a list of names; write [{getattr(self, name)!r}].")

    @classmethod
    def of(cls, given: Any) -> Self:
        """The roles that a user gives: `Columns`, or a mapping from attributes to columns.

        Raises
        ------
        UsageError
            If the mapping names an attribute that does not exist, or `given` is something else.
        """
        if isinstance(given, cls):
            return given
        known = [field.name for field in fields(cls)]
        if not isinstance(given, Mapping):
            raise UsageError(
                f"columns is {given!r:.80}; give dranking.Columns(qid=..., relevance=...), or a "
                "mapping such as {'qid': 'query_id', 'relevance': 'grade'}."
            )
        unknown = sorted(set(map(str, given)) - set(known))
        if unknown:
            raise UsageError(
                f"Columns has no {', '.join(unknown)}; choose from {', '.join(known)}, as in "
                "{'qid': 'query_id', 'relevance': 'grade'}."
            )
        return cls(**given)

    def nullable_if(self, may_miss: bool) -> Self:
        """The same roles; values of all features may be missing if `may_miss` says so."""
        return replace(self, nullable=None) if may_miss else self

    def shifted_if(self, shifts: bool) -> Self:
        """The same roles; origins are found in the data if `shifts` says so."""
        return replace(self, origins="auto") if shifts else self

    def may_miss(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """(n_names,) whether values of each feature may be missing."""
        nullable = self.nullable
        return np.array([nullable is None or name in nullable for name in names], dtype=np.bool_)

    @property
    def chosen(self) -> list[str]:
        """The attributes in which the caller asks for other columns than the default ones."""
        default = Columns()
        roles = [
            name for name in RESERVED if getattr(self, name) not in (getattr(default, name), None)
        ]
        return roles + [name for name in ("features", "exclude") if getattr(self, name)]


DEFAULT_COLUMNS = Columns()
DEFAULT_ROLES = Roles()
