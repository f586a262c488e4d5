"""Outcomes of the splits of a search in a folder, from which a search that ended early goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

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


class KeptOutcomes:
    """The outcomes of the splits of one search.

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
        stored = [self._stored(key) for key in keys]
        kept = [None if each is None else each.load(_restored) for each in stored]
        new = compute([number for number, outcome in enumerate(kept) if outcome is None])
        for place, outcome in zip(stored, kept, strict=True):
            if outcome is None:
                outcome = next(new)
                if place is not None:
                    place.save(lambda found=outcome: _parts_of(found))  # type: ignore[misc]
            paths, sums = outcome
            named = zip(paths, settings, strict=True)
            yield [path._replace(setting=setting) for path, setting in named], sums

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
