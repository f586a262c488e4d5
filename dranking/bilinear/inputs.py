"""The collections and preferences of a training, checked against each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.texts.preferences import Preferences, check_rows, same_class
from dranking.bilinear.training import TrainingData
from dranking.errors import DataError
from dranking.files.checksums import checksum


class Sides(NamedTuple):
    """The collections of queries and of documents of a training."""

    queries: Collection
    documents: Collection

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of W: words of queries by words of documents."""
        return self.queries.n_words, self.documents.n_words


def training_data(sides: Sides, preferences: Preferences | None) -> TrainingData:
    """The collections with their preferences; None stands for `same_class` of the documents.

    Raises
    ------
    DataError
        If the queries are other documents and have no preferences, or if the preferences are of
        other collections.
    """
    if preferences is None:
        if sides.queries is not sides.documents:
            raise DataError("queries need judgments (qrels) or a table of tuples.")
        preferences = same_class(sides.documents)
    check_rows(preferences, *sides)
    return TrainingData(*sides, preferences)


def validation_data(
    sides: Sides, validation: tuple[Collection, Preferences] | None
) -> TrainingData | None:
    """The validation documents, which are also the queries, with their preferences.

    Raises
    ------
    DataError
        If the validation documents have other words than the training documents, or the preferences
        belong to other documents.
    """
    if validation is None:
        return None
    documents, preferences = validation
    if any(not documents.has_words_of(side) for side in sides):
        raise DataError(
            "the words of the validation documents are not those of the training documents: "
            "vectorise both with one vectorizer."
        )
    check_rows(preferences, documents, documents)
    return TrainingData(documents, documents, preferences)


def fingerprint(data: TrainingData) -> str:
    """A digest of vectors and preferences."""
    queries, documents, preferences = data
    matrices = queries.vectors, documents.vectors
    arrays = [getattr(m, n) for m in matrices for n in ("indptr", "indices", "data")]
    arrays += [v for v in vars(preferences).values() if isinstance(v, np.ndarray)]
    return "".join(digest(array) for array in arrays)


def digest(array: NDArray[Any]) -> str:
    """A digest of the bytes of an array."""
    return checksum(np.ascontiguousarray(array).view(np.uint8))
