"""Outcomes of the splits of a search in a folder, from which a search that ended early goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dranking.data.column_forms import ColumnForms
from dranking.data.dataset import Dataset
from dranking.errors import UsageError
from dranking.files.places import AnyPlace, as_place, is_local
from dranking.models.linear.options import json_ready
from dranking.models.training.checkpoint import Arrays, Facts, TrainingCheckpoint
from dranking.tuning.choice import ModelPath
from dranking.tuning.grid import Array
from dranking.tuning.settings import Setting

Outcome: TypeAlias = tuple[list[ModelPath], Array]
"""The models of a split, and their sums over its judged queries, as of `validation_sums`."""


Kept = TypeVar("Kept")


class KeptOutcomes:
    """The fitted forms, and the outcomes, of the splits of one search.

    Parameters
    ----------
    path
        The folder, which is made; None means that nothing is kept.
    job
        What all outcomes of the search follow from, beside their own keys.

    Raises
    ------
    UsageError
        If the folder has the outcomes of another job, or is a file.
    """

    def __init__(self, path: AnyPlace | None, job: Callable[[], Mapping[str, Any]]) -> None:
        self._folder = None if path is None else as_place(path)
        self._job: dict[str, Any] = {}
        if self._folder is not None:
            self._job = json_ready(dict(job()))
            if is_local(self._folder) and self._folder.is_file():
                raise UsageError(f"{self._folder} is a file; name a folder for the checkpoint.")
            header = TrainingCheckpoint(
                self._folder / "search", self._job, "a search", shown=self._folder
            )
            if header.load(lambda facts, arrays: True) is None:
                header.save(lambda: ({}, {}))

    def through(
        self,
        keys: Sequence[Callable[[], Mapping[str, Any]]],
        settings: Sequence[Setting],
        compute: Callable[[Sequence[int]], Iterator[Outcome]],
    ) -> Iterator[Outcome]:
        """Yield the outcome of each split: the outcome that is kept, or a new one, which is kept.

        Parameters
        ----------
        keys
            What determines the outcome of each split.
        settings
            The settings of the models of every split.
        compute
            Takes the numbers of the splits without an outcome; yields their outcomes in order.
        """
        for paths, sums in self._each(keys, compute, _parts_of, _restored):
            named = zip(paths, settings, strict=True)
            yield [path._replace(setting=setting) for path, setting in named], sums

    def forms(
        self,
        keys: Sequence[Callable[[], Mapping[str, Any]]],
        compute: Callable[[Sequence[int]], Iterator[ColumnForms | None]],
    ) -> Iterator[ColumnForms | None]:
        """Yield the forms that are fitted to each split, as `through` does; None for raw."""
        texts = self._each(
            keys,
            lambda numbers: (
                "" if each is None else each.model_dump_json() for each in compute(numbers)
            ),
            lambda text: ({"forms": text}, {}),
            lambda facts, arrays: str(facts["forms"]),
        )
        for text in texts:
            yield ColumnForms.model_validate_json(text) if text else None

    def _each(
        self,
        keys: Sequence[Callable[[], Mapping[str, Any]]],
        compute: Callable[[Sequence[int]], Iterator[Kept]],
        parts_of: Callable[[Kept], tuple[Facts, Arrays]],
        restored: Callable[[Facts, Arrays], Kept],
    ) -> Iterator[Kept]:
        """Yield what is kept under each key, or what is computed, which is kept from then on."""
        stored = [self._stored(key) for key in keys]
        kept = [None if each is None else each.load(restored) for each in stored]
        new = compute([number for number, found in enumerate(kept) if found is None])
        for place, found in zip(stored, kept, strict=True):
            if found is None:
                made = next(new)
                if place is not None:
                    place.save(lambda made=made: parts_of(made))  # type: ignore[misc]
                yield made
            else:
                yield found

    def _stored(self, key: Callable[[], Mapping[str, Any]]) -> TrainingCheckpoint | None:
        """The folder of an outcome; None if nothing is kept."""
        if self._folder is None:
            return None
        own = self._job | json_ready(dict(key()))
        name = hashlib.blake2b(json.dumps(own, sort_keys=True).encode(), digest_size=16).hexdigest()
        return TrainingCheckpoint(self._folder / name, own)


NOTHING_KEPT = KeptOutcomes(None, dict)
"""Where all outcomes are computed."""


def queries_digest(dataset: Dataset) -> str:
    """Digest of the ids of queries and documents: of a subset, and of the order of its ties."""
    digest = hashlib.blake2b(digest_size=16)
    for block in dataset.read_blocks(columns=np.empty(0, dtype=np.intp)):
        for ids in (block.query_ids, block.doc_ids):
            digest.update(
                json.dumps(None if ids is None else [*map(str, ids.to_pylist())]).encode()
            )
    return digest.hexdigest()


def _parts_of(outcome: Outcome) -> tuple[Facts, Arrays]:
    """An outcome as facts and arrays."""
    paths, sums = outcome
    arrays: Arrays = {"sums": sums}
    for number, path in enumerate(paths):
        arrays[f"selected-{number}"] = path.selected.astype(np.int64)
        arrays[f"lengths-{number}"] = np.array([len(w) for w in path.weights], dtype=np.int64)
        arrays[f"weights-{number}"] = np.concatenate(path.weights)
    return {"n_paths": len(paths)}, arrays


def _restored(facts: Facts, arrays: Arrays) -> Outcome:
    """The outcome of facts and arrays; the settings of its models are not known."""
    paths = []
    for number in range(facts["n_paths"]):
        lengths, weights = arrays[f"lengths-{number}"], arrays[f"weights-{number}"]
        each = np.split(weights, np.cumsum(lengths)[:-1])
        selected = arrays[f"selected-{number}"].astype(np.intp)
        paths.append(ModelPath(Setting(regularization=np.nan), selected, each))
    return paths, arrays["sums"]
