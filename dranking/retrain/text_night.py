"""Nights of the bilinear ranker, which learns from texts and their labels which are alike.

Sources are parquet tables with the columns text and label, and id where queries shall have names
in reports. Every text held out is a query for all others; those of its label are relevant.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dranking.data.texts.collection import Collection, text_collection
from dranking.data.texts.preferences import SameClass
from dranking.data.texts.tfidf import TextVectorizer
from dranking.errors import DataError, UsageError
from dranking.files.commit import atomic_path
from dranking.metrics.per_query import PerQuery
from dranking.rankers.bilinear.estimator import BilinearRanker
from dranking.rankers.bilinear.evaluation import evaluate_bilinear
from dranking.rankers.bilinear.model import BilinearModel, load_bilinear_model
from dranking.report.content import Content, measures_of
from dranking.retrain.parts import Source, check_unchanged, keep_only
from dranking.retrain.registry import MODEL_FOLDER
from dranking.retrain.run import Facts, Run

NOT_PARAMETERS = {"regularization", "checkpoint", "support"}
"""Parameters of the ranker that ``model.parameters`` cannot say."""


class TextNight:
    """A `Night` of `BilinearRanker`."""

    model_name = MODEL_FOLDER

    def __init__(self, run: Run) -> None:
        self._run = run
        self._root = run.work / "parts"

    def check(self) -> None:
        """Raise UsageError if ranker or vectoriser have no such parameters."""
        config = self._run.config
        known = set(BilinearRanker().get_params()) - NOT_PARAMETERS
        _check_names("model.parameters", config.model.parameters, known)
        known = set(signature(TextVectorizer.fit).parameters) - {"texts"}
        _check_names("data.text", config.data.text, known)

    def ingest(self) -> Facts:
        """Copy sources that are new."""
        run = self._run
        new = [s.name for found in run.sources.values() for s in found if not self._is_there(s)]
        facts: Facts = {"new": new}
        for name, sources in run.sources.items():
            table = self._table(name)
            if not table.num_rows:
                raise DataError(f"the {name} data has no text.")
            digest = hashlib.blake2b(digest_size=16)
            for source in sources:
                digest.update(self._path(source).read_bytes())
            facts[name] = {
                "fingerprint": digest.hexdigest(),
                "n_documents": table.num_rows,
                "n_labels": len(table["label"].unique()),
            }
        return facts

    def statistics(self) -> Facts:
        """Nothing: words are counted with the texts at hand."""
        return {"used": False}

    def tune(self) -> Facts:
        """Nothing: lambda is given."""
        return {"chosen": None}

    def fit(self) -> Facts:
        """Train the challenger on all texts of the window."""
        run = self._run
        [regularization] = run.config.model.regularization
        ranker = BilinearRanker(regularization, **run.config.model.parameters)
        documents = self._collection("train", None, run.config.data.text)
        model = ranker.fit(documents, executor=run.executor).to_model()
        model.save(run.version / MODEL_FOLDER, overwrite=True)
        return {"n_features": int(model.weights.nnz)}

    def load(self, folder: Path) -> BilinearModel:
        """The model in a folder of a version's files."""
        return load_bilinear_model(folder / MODEL_FOLDER)

    def measure(self, model: BilinearModel, measures: Sequence[str]) -> PerQuery:
        """Measures of a model on the texts held out, as vectors of the model's own words."""
        documents = self._collection("holdout", model.vectorizer, {})
        preferences = labelled_alike(documents)
        if (preferences.classes < 0).all():
            raise DataError("data.holdout: no two texts have the same label; nothing is ranked.")
        found = evaluate_bilinear(
            model,
            documents,
            preferences,
            measures=measures,
            convention=self._run.config.gate.convention,
        )
        return found.per_query

    def drift(self) -> dict[str, float]:
        """None known: texts have no features that all nights share."""
        return {}

    def exports(self) -> dict[str, str | bytes]:
        """None: the formats hold linear models, and the configuration asks for none."""
        return {}

    def describe(self, model: BilinearModel, champion: BilinearModel | None) -> Content:
        """What a report says of the model."""
        gate = self._run.config.gate
        measures = measures_of(gate.metric)
        held_out = self._run.facts["ingest"]["holdout"]
        return Content(
            model=model,
            metric=gate.metric,
            convention=gate.convention,
            challenger=self.measure(model, measures),
            champion=None if champion is None else self.measure(champion, measures),
            facts={
                "judged texts": f"{held_out['n_documents']:,}",
                "labels": f"{held_out['n_labels']:,}",
                "judged data": held_out["fingerprint"],
            },
        )

    def keep_only(self) -> None:
        """Delete the copies of other sources."""
        keep_only(self._root, [s for found in self._run.sources.values() for s in found])

    def _path(self, source: Source) -> Path:
        return self._root / f"{source.key}.parquet"

    def _is_there(self, source: Source) -> bool:
        return self._path(source).is_file()

    def _collection(
        self, name: str, vectorizer: TextVectorizer | None, options: dict[str, Any]
    ) -> Collection:
        """The texts of some sources as vectors."""
        table = self._table(name)
        ids = (
            table["id"].combine_chunks()
            if name == "holdout" and "id" in table.schema.names
            else None
        )
        return text_collection(
            table["text"].to_pylist(),
            vectorizer,
            ids=ids,
            labels=table["label"].combine_chunks(),
            **options,
        )

    def _table(self, name: str) -> pa.Table:
        """The rows of some sources, copied if they are new; ids only where all have them."""
        tables = [self._read(source) for source in self._run.sources[name]]
        shared = set.intersection(*(set(table.schema.names) for table in tables))
        return pa.concat_tables([table.select(sorted(shared)) for table in tables])

    def _read(self, source: Source) -> pa.Table:
        if not self._is_there(source):
            self._copy(source)
        try:
            file = pq.ParquetFile(self._path(source))
            there = file.schema_arrow.names
            absent = [name for name in ("text", "label") if name not in there]
            if absent:
                raise DataError(
                    f"{source.name}: has no column {' and no column '.join(absent)}; texts with "
                    f"labels are wanted. Its columns: {', '.join(there)}."
                )
            columns = [name for name in ("id", "label", "text") if name in there]
            table = file.read(columns=columns)
            return pa.table({name: table[name].cast(pa.string()) for name in columns})
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{source.name}: no parquet table of texts that can be read ({error})."
            ) from error

    def _copy(self, source: Source) -> None:
        target = self._path(source)
        try:
            with atomic_path(target) as temporary:
                shutil.copyfile(source.name, temporary)
        except OSError as error:
            raise DataError(f"{source.name}: cannot be read ({error.strerror}).") from error
        check_unchanged(source, self._run.config.data, target)


def labelled_alike(documents: Collection) -> SameClass:
    """Preferences of a collection for evaluation: the same queries whatever a model's words are.

    Unlike `same_class`, which is for training, a text without any of the words takes part.
    """
    classes = documents.classes if documents.classes is not None else np.empty(0, np.int64)
    sizes = np.bincount(classes, minlength=1)
    kept = np.where(sizes[classes] < 2, -1, classes)
    return SameClass(kept, int((kept < 0).sum()))


def _check_names(table: str, given: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise UsageError(
            f"{table}: bilinear takes no {', '.join(unknown)}; choose from "
            f"{', '.join(sorted(known))}."
        )
