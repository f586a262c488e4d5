"""Bilinear models: weights of word pairs, stored as a directory, with explanations of scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt, StrictStr, ValidationError
from scipy import sparse

from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.texts.tfidf import TextVectorizer
from dranking.errors import DataError, UsageError, problems_in
from dranking.files.folders.array_folder import csr_of, read_arrays, write_arrays
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.writing.output_checks import check_output_directory
from dranking.models.trained_queries import (
    QueriesFile,
    TrainedQueries,
    read_queries,
    save_with_queries,
)

KIND = "bilinear-model"


class WordPair(NamedTuple):
    """A query word, a document word, and the weight of the pair or its share of a score."""

    query_word: str
    word: str
    value: float


class StoredQueries(NamedTuple):
    """The place of a stored model, and what the model says of the file of its queries beside it."""

    model: Place
    file: QueriesFile


@dataclass(frozen=True, eq=False)
class BilinearModel:
    """A bilinear ranker: the score of a document d for a query q is ``q' W d``.

    Attributes
    ----------
    weights
        W, (n_query_words, n_words) float32 `csr_array` with sorted indices and no stored zeros.
    query_words, words
        Names of the rows and of the columns of W, or None.
    vectorizer, query_vectorizer
        Vectorizers of the texts of documents and of queries, or None.
    provenance
        Origin of the model: ranker, parameters, data, versions.
    queries
        Hashes of the queries that the model was trained on, or where they are stored; None if they
        are not known. `trained_queries` reads them.
    """

    weights: Any
    query_words: tuple[str, ...] | None = None
    words: tuple[str, ...] | None = None
    vectorizer: TextVectorizer | None = None
    query_vectorizer: TextVectorizer | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    queries: TrainedQueries | StoredQueries | None = None

    def __repr__(self) -> str:
        n_query_words, n_words = self.weights.shape
        sizes = f"{n_query_words:,} query words, {n_words:,} words, {self.weights.nnz:,} weights"
        return f"BilinearModel({sizes})"

    @property
    def density(self) -> float:
        """Share of the entries of W that are not zero."""
        return float(self.weights.nnz / max(1, self.weights.shape[0] * self.weights.shape[1]))

    def scores(self, queries: Any, documents: Any) -> NDArray[np.float64]:
        """Return the scores of all documents for each query.

        Parameters
        ----------
        queries, documents
            Collections, SciPy sparse matrices of vectors, or lists of texts.

        Returns
        -------
        (n_queries, n_documents) float64; higher ranks first.

        Raises
        ------
        DataError
            If vectors have another length, other words or values that are not finite, or if the
            model has no vectorizer for texts.
        """
        q, d = self._vectors(queries, of_queries=True), self._vectors(documents, of_queries=False)
        # In float64, since sums in float32 tie, or overflow, where vectors are long. The product
        # with W is made dense: few of its entries are zero.
        words, places = np.unique(q.indices, return_inverse=True)
        own = sparse.csr_array((q.data, places, q.indptr), shape=(q.shape[0], len(words)))
        asked = (own @ self.weights[words].astype(np.float64)).toarray()
        return np.ascontiguousarray((d @ np.ascontiguousarray(asked.T)).T)

    def related(self, word: str, n: int = 10) -> list[WordPair]:
        """Return the document words with the largest positive weights for a query word.

        The word itself is not among them.

        Raises
        ------
        UsageError
            If W's rows and columns have no names, or the word is unknown.
        """
        query_words, words = self._names()
        if word not in query_words:
            raise UsageError(f"{word!r} is not among the model's {len(query_words):,} words.")
        row = query_words.index(word)
        entries = slice(self.weights.indptr[row], self.weights.indptr[row + 1])
        columns, values = self.weights.indices[entries], self.weights.data[entries]
        best = [
            WordPair(word, words[columns[i]], float(values[i]))
            for i in np.argsort(-values, kind="stable")[: n + 1]
            if values[i] > 0 and words[columns[i]] != word
        ]
        return best[:n]

    def explain(self, query: Any, document: Any, n: int | None = None) -> list[WordPair]:
        """Return the word pairs that make up the score of a document for a query.

        Parameters
        ----------
        query, document
            Texts, or (1, n_words) sparse vectors.
        n
            Largest number of pairs; None for all. The shares of all pairs add up to the score, and
            the largest absolute shares come first.

        Raises
        ------
        UsageError
            If W's rows and columns have no names.
        DataError
            As for `scores`.
        """
        query_words, words = self._names()
        q = self._vectors([query] if isinstance(query, str) else query, of_queries=True)
        d = self._vectors([document] if isinstance(document, str) else document, of_queries=False)
        part = self.weights[q.indices][:, d.indices].tocoo()
        rows, columns = part.coords
        shares = q.data[rows].astype(np.float64) * part.data * d.data[columns]
        order = np.argsort(-np.abs(shares), kind="stable")[:n]
        return [
            WordPair(
                query_words[q.indices[rows[i]]], words[d.indices[columns[i]]], float(shares[i])
            )
            for i in order
        ]

    def top_pairs(self, n: int = 50) -> list[WordPair]:
        """Return the n pairs of two different words with the largest absolute weights.

        Raises
        ------
        UsageError
            If W's rows and columns have no names.
        """
        query_words, words = self._names()
        entries = self.weights.tocoo()
        rows, columns = entries.coords
        found: list[WordPair] = []
        # At most one entry of each row pairs a word with itself.
        for i in np.argsort(-np.abs(entries.data), kind="stable")[: n + len(query_words)]:
            pair = WordPair(query_words[rows[i]], words[columns[i]], float(entries.data[i]))
            if pair.query_word != pair.word:
                found.append(pair)
            if len(found) == n:
                break
        return found

    def trained_queries(self) -> TrainedQueries | None:
        """The hashes of the queries that the model was trained on; None if they are not known.

        They are those that `fit` kept, or those of the file beside the model, which is read once.

        Raises
        ------
        DataError
            If the file is damaged, or belongs to another model.
        """
        return self._trained

    @cached_property
    def _trained(self) -> TrainedQueries | None:
        if isinstance(self.queries, StoredQueries):
            return read_queries(*self.queries)
        return self.queries

    def save(
        self,
        path: AnyPlace,
        *,
        overwrite: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the model as a directory: a manifest, and arrays as .npy files.

        The file ``model.queries`` beside the directory ``model`` gets the hashes of the training
        queries, if they are known; without it nobody can tell whether judged queries were trained
        on.

        Parameters
        ----------
        path
            The place to write to: a local path or a URL.
        overwrite
            Replace a model that exists.
        storage_options
            Options of the URL's file system, as pandas and Dask take them.

        Raises
        ------
        UsageError
            If the path exists and `overwrite` is false, if the path holds other files than a
            model's, or if a file of another kind is in the place of ``model.queries``.
        """
        place, queries = as_place(path, storage_options), self.trained_queries()
        vectorizers = {"documents": self.vectorizer, "queries": self.query_vectorizer}
        arrays = {name: getattr(self.weights, name) for name in ("indptr", "indices", "data")}
        arrays |= {f"idf_{k}": v.idf for k, v in vectorizers.items() if v is not None}
        facts = {
            "shape": self.weights.shape,
            "query_words": None if self.query_words == self.words else self.query_words,
            "words": self.words,
            "vectorizers": {k: dict(v.options) for k, v in vectorizers.items() if v is not None},
            "provenance": dict(self.provenance),
            "queries": None if queries is None else queries.file.model_dump(),
        }
        check_output_directory(place, overwrite)
        write = partial(write_arrays, place, KIND, facts, arrays, overwrite=overwrite)
        save_with_queries(place, queries, write)

    def _vectors(self, given: Any, *, of_queries: bool) -> Any:
        """Return the vectors of a collection, of texts or of a sparse matrix, checked against W."""
        words = self.query_words if of_queries else self.words
        vectorizer = self.query_vectorizer if of_queries else self.vectorizer
        side, axis = ("queries", 0) if of_queries else ("documents", 1)
        if isinstance(given, Collection):
            if given.words is not None and words is not None and given.words != words:
                raise DataError(
                    f"the {side} have other words than the model was trained on: vectorise them "
                    "with the model's vectorizer."
                )
            vectors = given.vectors
        elif sparse.issparse(given):
            vectors = sparse.csr_array(given, dtype=np.float32)
            if not np.isfinite(vectors.data).all():
                raise DataError(f"the vectors of {side} have values that are NaN or infinite.")
        elif vectorizer is None:
            raise DataError(f"the model has no vectorizer for the text of {side}; pass vectors.")
        else:
            vectors = vectorizer.transform(given)
        if vectors.shape[1] != self.weights.shape[axis]:
            raise DataError(
                f"the vectors of {side} have {vectors.shape[1]:,} words, but the model has "
                f"{self.weights.shape[axis]:,}."
            )
        return vectors

    def _names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.query_words is None or self.words is None:
            raise UsageError(
                "the model's columns have no names: the model was trained on vectors without words."
            )
        return self.query_words, self.words


class _Facts(BaseModel):
    """The facts in the manifest of a model, beside its arrays."""

    model_config = ConfigDict(extra="forbid")
    shape: tuple[NonNegativeInt, NonNegativeInt]
    query_words: tuple[StrictStr, ...] | None
    words: tuple[StrictStr, ...] | None
    vectorizers: dict[Literal["documents", "queries"], dict[str, Any]]
    provenance: dict[str, Any]
    queries: QueriesFile | None


def load_bilinear_model(path: AnyPlace) -> BilinearModel:
    """Load a stored bilinear model. No code from the model is run.

    Raises
    ------
    DataError
        If the path does not exist, or holds no bilinear model or a damaged model.
    """
    place = as_place(path)
    stored, arrays = read_arrays(place, KIND)
    try:
        facts = _Facts.model_validate(stored)
        in_memory = {name: np.array(array) for name, array in arrays.items()}
        weights = csr_of(in_memory, facts.shape)
        words = facts.words
        query_words = words if facts.query_words is None else facts.query_words
        named = {"documents": words, "queries": query_words}
        for names, wanted in zip((query_words, words), facts.shape, strict=True):
            if names is not None and len(names) != wanted:
                raise ValueError(f"{len(names)} words for {wanted} rows or columns of weights")
        vectorizers = {
            side: TextVectorizer.stored(names, in_memory[f"idf_{side}"], facts.vectorizers[side])
            for side, names in named.items()
            if side in facts.vectorizers and names is not None
        }
        return BilinearModel(
            weights,
            query_words,
            words,
            vectorizers.get("documents"),
            vectorizers.get("queries"),
            facts.provenance,
            None if facts.queries is None else StoredQueries(place, facts.queries),
        )
    except ValidationError as error:
        raise DataError(f"{path} is damaged ({problems_in(error, 'manifest')}).") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path} is damaged ({error}); train it anew, or take a copy.") from error
