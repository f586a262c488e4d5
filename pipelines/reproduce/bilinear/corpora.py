"""20 Newsgroups and MNIST as collections of training and of test documents."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.texts.make_collection import collection, text_collection
from dranking.errors import DataError

NEWSGROUPS = "20news/20news-bydate.tar.xz"
MNIST = "mnist"

LETTERS = r"(?u)\b[a-zA-Z][a-zA-Z]+\b"


class Corpus(NamedTuple):
    """Training and test documents of the same words."""

    train: Collection
    test: Collection


def newsgroups(folder: Path, n_words: int = 10_000, stop_words: str | None = "english") -> Corpus:
    """Return 20 Newsgroups, split by date: whole posts with their headers.

    Words are runs of two or more letters; the most frequent words of the training posts are taken.
    The weights are sublinear tf-idf.

    Raises
    ------
    DataError
        If the archive is not in the folder.
    """
    file = folder / NEWSGROUPS
    texts: dict[str, list[str]] = {"train": [], "test": []}
    groups: dict[str, list[str]] = {"train": [], "test": []}
    if not file.exists():
        raise DataError(f"{file}: does not exist; name the folder that holds {NEWSGROUPS}.")
    with tarfile.open(file) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                part, group, _ = member.name.split("/")
                texts[part.rsplit("-", 1)[1]].append(content.read().decode("latin-1"))
                groups[part.rsplit("-", 1)[1]].append(group)
    train = text_collection(
        texts["train"],
        labels=groups["train"],
        n_words=n_words,
        stop_words=stop_words,
        token_pattern=LETTERS,
    )
    return Corpus(train, text_collection(texts["test"], train.vectorizer, labels=groups["test"]))


def mnist(folder: Path) -> Corpus:
    """Return MNIST: the pixels of each image, scaled to unit length.

    Raises
    ------
    DataError
        If the files are not in the folder.
    """
    return Corpus(*(_images(folder / MNIST, part) for part in ("train", "t10k")))


def _images(folder: Path, part: str) -> Collection:
    try:
        pixels = _idx(folder / f"{part}-images-idx3-ubyte.gz", 16)
        labels = _idx(folder / f"{part}-labels-idx1-ubyte.gz", 8)
    except OSError as error:
        raise DataError(f"{folder}: {error}; name the folder that holds {MNIST}/.") from error
    vectors = sparse.csr_array(pixels.reshape(len(labels), -1), dtype=np.float32)
    lengths = np.sqrt(vectors.power(2).sum(axis=1))
    vectors.data /= np.repeat(lengths, np.diff(vectors.indptr))
    places = [f"{row},{column}" for row in range(28) for column in range(28)]
    return collection(vectors, labels=labels.astype(np.int64), words=places)


def _idx(file: Path, header: int) -> np.ndarray:
    with gzip.open(file) as content:
        return np.frombuffer(content.read(), dtype=np.uint8, offset=header)
