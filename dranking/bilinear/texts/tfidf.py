"""Vectors of texts: tf-idf of the most frequent words, scaled to unit length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.bilinear.texts.patterns import check_pattern
from dranking.errors import DataError, UsageError

StopWords: TypeAlias = Literal["english"] | None

OPTIONS = ("sublinear_tf", "stop_words", "token_pattern", "lowercase")


@dataclass(frozen=True, eq=False)
class TextVectorizer:
    """A fitted tf-idf weighting, which makes vectors of any texts.

    Attributes
    ----------
    vocabulary
        The words, ascending; word i is column i of the vectors.
    idf
        (n_words,) float64 inverse document frequencies.
    options
        Options of scikit-learn's `TfidfVectorizer` that matter for new texts; see `OPTIONS`.
    """

    vocabulary: tuple[str, ...]
    idf: NDArray[np.float64]
    options: Mapping[str, Any]

    @classmethod
    def stored(
        cls, vocabulary: tuple[str, ...], idf: NDArray[Any], options: Mapping[str, Any]
    ) -> TextVectorizer:
        """Return a stored vectorizer; raise ValueError if `fit` could not have made it."""
        if set(options) != set(OPTIONS):
            raise ValueError(f"a vectorizer has the options {', '.join(OPTIONS)}")
        pattern = options["token_pattern"]
        flags = (options["sublinear_tf"], options["lowercase"])
        if options["stop_words"] not in ("english", None) or not all(
            isinstance(flag, bool) for flag in flags
        ):
            raise ValueError("an option of the vectorizer has a value that it does not take")
        if len(set(vocabulary)) != len(vocabulary):
            raise ValueError("a word occurs twice")
        try:
            check_pattern(pattern)
        except ValueError as error:
            raise ValueError(f"token_pattern {error}") from error
        if idf.shape != (len(vocabulary),) or idf.dtype != np.float64:
            raise ValueError(f"idf must be {len(vocabulary)} float64 numbers")
        if not np.isfinite(idf).all():
            raise ValueError("idf has numbers that are not finite")
        return cls(vocabulary, np.array(idf), dict(options))

    @classmethod
    def fit(
        cls,
        texts: Iterable[str],
        *,
        n_words: int = 10_000,
        sublinear_tf: bool = True,
        stop_words: StopWords = "english",
        token_pattern: str = r"(?u)\b\w\w+\b",
        lowercase: bool = True,
    ) -> TextVectorizer:
        """Find the most frequent words of texts, and their inverse document frequencies.

        Parameters
        ----------
        texts
            One text per document.
        n_words
            Largest number of words; the words that occur most often in all texts are taken.
        sublinear_tf
            Whether a word that occurs n times in a text counts 1 + ln(n) instead of n.
        stop_words
            "english" ignores the words of scikit-learn's list of English stop words.
        token_pattern
            Regular expression of a word.
        lowercase
            Whether texts are converted to lower case.

        Raises
        ------
        UsageError
            If `n_words` is below 1, or the pattern may take very long (`check_pattern`).
        DataError
            If no text has a word.
        """
        if n_words < 1:
            raise UsageError(f"n_words is {n_words}; it must be at least 1.")
        try:
            check_pattern(token_pattern)
        except ValueError as error:
            raise UsageError(f"token_pattern {token_pattern!r} {error}.") from error
        options = dict(
            zip(OPTIONS, (sublinear_tf, stop_words, token_pattern, lowercase), strict=True)
        )
        vectorizer = _sklearn_vectorizer(options, max_features=n_words)
        try:
            vectorizer.fit(texts)
        except ValueError as error:
            raise DataError(f"no words were found in the texts ({error}).") from error
        words = tuple(vectorizer.get_feature_names_out().tolist())
        return cls(words, np.asarray(vectorizer.idf_, dtype=np.float64), options)

    def transform(self, texts: Iterable[str]) -> Any:
        """Return the vectors of texts, (n_texts, n_words) float32 `csr_array`.

        Words outside the vocabulary are ignored.
        """
        from scipy import sparse

        vectorizer = _sklearn_vectorizer(self.options, vocabulary=self.vocabulary)
        vectorizer.idf_ = self.idf
        return sparse.csr_array(vectorizer.transform(texts), dtype=np.float32)


def _sklearn_vectorizer(options: Mapping[str, Any], **others: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(dtype=np.float64, **options, **others)
