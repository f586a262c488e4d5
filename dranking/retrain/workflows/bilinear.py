"""The stages of a run for the bilinear ranker, which learns from labelled texts.

Sources are parquet tables with the columns text and label, and optionally id, which names the
queries in reports, and tells whether a judged text is trained on. Every text held out is a query
against all other texts held out; the texts with the same label are relevant.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dranking.bilinear.estimator import BilinearRanker
from dranking.bilinear.evaluation import evaluate_bilinear
from dranking.bilinear.model import BilinearModel, load_bilinear_model
from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.texts.make_collection import text_collection
from dranking.bilinear.texts.preferences import SameClass
from dranking.bilinear.texts.tfidf import TextVectorizer
from dranking.errors import DataError, UsageError, listed
from dranking.files.places import Place, as_place
from dranking.files.reading import exists, read_bytes
from dranking.files.writing.atomic_files import atomic_write
from dranking.models.evaluation import Evaluation
from dranking.report.content import Content, measures_of
from dranking.retrain.gate.gate import PartDrift
from dranking.retrain.registry.registry import MODEL_FOLDER
from dranking.retrain.results import Fitted, Ingested, StatisticsUpdate, TextFacts, Tuned
from dranking.retrain.sources.content_digests import DIGESTS_NAME, ContentDigests
from dranking.retrain.sources.sources import Source, check_unchanged, delete_others
from dranking.retrain.workflow import Run
from dranking.retrain.workflows.judged_queries import left_out

NOT_PARAMETERS = {"regularization", "checkpoint", "support"}
"""Parameters of the ranker that ``model.parameters`` may not set."""


class BilinearWorkflow:
    """The `Workflow` of `BilinearRanker`."""

    model_name = MODEL_FOLDER

    def __init__(self, run: Run) -> None:
        self._run = run
        self._root = run.work / "parts"

    def check(self) -> None:
        """Raise UsageError if ranker or vectoriser do not have the configured parameters."""
        config = self._run.config
        known = set(BilinearRanker().get_params()) - NOT_PARAMETERS
        _check_names("model.parameters", config.model.parameters, known)
        known = set(signature(TextVectorizer.fit).parameters) - {"texts"}
        _check_names("data.text", config.data.text, known)

    def ingest(self) -> Ingested[TextFacts]:
        """Copy the sources that are new.

        Raises
        ------
        DataError
            If the data of some use has no text, or texts are both trained on and judged on, and
            the configuration refuses that or nothing else is left.
        """
        run = self._run
        new = tuple(s.name for s in run.all_sources if not exists(self._path(s)))
        facts = {use: self._facts(use) for use in run.sources}
        names, rule = self._judged_names(), run.config.data.holdout_overlap
        n_left_out, notes = left_out(names, facts["train"].n_documents, rule, "texts")
        return Ingested(new, facts, notes, n_left_out)

    @cached_property
    def _is_judged(self) -> NDArray[np.bool_]:
        """(n_texts,) whether each text of the training is judged as well: its id, or the text."""
        own = self._table("train")
        found = np.zeros(own.num_rows, dtype=np.bool_)
        for use in self._run.sources.keys() - {"train"}:
            judged = self._table(use)
            for name in {"id", "text"} & {*own.column_names} & {*judged.column_names}:
                values = judged[name].combine_chunks()
                found |= pc.is_in(own[name], value_set=values, skip_nulls=True).to_numpy()
        return found

    def _judged_names(self) -> list[str]:
        """Ids of the training texts that are judged as well; without ids, rows of the sources."""
        names, first = [], 0
        for source in self._run.sources["train"] if self._is_judged.any() else ():
            table = self._read(source)
            rows = np.flatnonzero(self._is_judged[first : first + table.num_rows])
            first += table.num_rows
            if "id" in table.column_names:
                ids = table["id"].take(pa.array(rows)).to_pylist()
            else:
                ids = [None] * len(rows)
            names += [i or f"row {r} of {source.name}" for i, r in zip(ids, rows, strict=True)]
        return names

    def update_statistics(self) -> StatisticsUpdate:
        """Do nothing: words are counted when the model is trained."""
        return StatisticsUpdate(used=False)

    def tune(self, statistics: StatisticsUpdate) -> Tuned:
        """Do nothing: lambda is given."""
        return Tuned()

    def fit(self, statistics: StatisticsUpdate, tuned: Tuned) -> Fitted:
        """Train the challenger on all texts of the window that are not judged."""
        run = self._run
        [regularization] = run.config.model.regularization
        ranker = BilinearRanker(regularization, **run.config.model.parameters)
        documents = self._collection("train", None, run.config.data.text)
        model = ranker.fit(documents, executor=run.executor).to_model()
        model.save(run.version_folder / MODEL_FOLDER, overwrite=True)
        return Fitted(n_features=int(model.weights.nnz))

    def load(self, folder: Place) -> BilinearModel:
        """Load the model, with its training queries, from a folder of the files of a version."""
        model = load_bilinear_model(folder / MODEL_FOLDER)
        model.trained_queries()  # the folder may be gone when they are asked for
        return model

    def measure(self, model: BilinearModel, measures: Sequence[str]) -> Evaluation:
        """Measure a model on the texts held out, as vectors over the model's own words."""
        documents = self._collection("holdout", model.vectorizer, {})
        preferences = label_preferences(documents)
        if (preferences.classes < 0).all():
            raise DataError(
                "data.holdout: no two texts have the same label, so no query has a relevant text."
            )
        found = evaluate_bilinear(
            model,
            documents,
            preferences,
            metric=measures,
            convention=self._run.config.gate.convention,
        )
        return Evaluation(found.per_query, found.trained_on)

    def drift(self) -> tuple[PartDrift, ...]:
        """Return nothing: texts have no features that all runs share."""
        return ()

    def exports(self) -> dict[str, str | bytes]:
        """Return nothing: all formats hold linear models, and the configuration has none."""
        return {}

    def describe(
        self,
        model: BilinearModel,
        champion: BilinearModel | None,
        ingested: Ingested[TextFacts],
        statistics: StatisticsUpdate,
    ) -> Content:
        """Compute the report of a model beside a champion (None if there is none)."""
        gate = self._run.config.gate
        measures = measures_of(gate.metric)
        judged = ingested.data["holdout"]
        models = {"model": model, "champion": champion}
        found = {role: self.measure(m, measures) for role, m in models.items() if m is not None}
        theirs = found.get("champion")
        return Content(
            model=model,
            metric=gate.metric,
            convention=gate.convention,
            challenger=found["model"].per_query,
            champion=None if theirs is None else theirs.per_query,
            overlaps={role: each.trained_on for role, each in found.items() if each.trained_on},
            facts={
                "judged texts": f"{judged.n_documents:,}",
                "labels": f"{judged.n_labels:,}",
                "judged fingerprint": judged.fingerprint,
            },
        )

    def delete_unused(self) -> None:
        """Delete the copies of sources that this run does not use."""
        delete_others(self._root, self._run.all_sources)

    def _path(self, source: Source) -> Place:
        return self._root / f"{source.key}.parquet"

    def _facts(self, use: str) -> TextFacts:
        """Content and size of the texts of one use."""
        table = self._table(use)
        if not table.num_rows:
            raise DataError(f"the {use} data has no text.")
        digest = hashlib.blake2b(digest_size=16)
        for source in self._run.sources[use]:
            digest.update(read_bytes(self._path(source)))
        return TextFacts(digest.hexdigest(), table.num_rows, len(table["label"].unique()))

    def _collection(
        self, use: str, vectorizer: TextVectorizer | None, options: dict[str, Any]
    ) -> Collection:
        """The texts of one use as vectors."""
        table = self._table(use)
        if use == "train":
            table = table.filter(pa.array(~self._is_judged))
        ids = table["id"].combine_chunks() if "id" in table.column_names else None
        made = text_collection(
            table["text"].to_pylist(),
            vectorizer,
            ids=None if use == "train" else ids,
            labels=table["label"].combine_chunks(),
            **options,
        )
        if use != "train" or ids is None:
            return made
        # Texts of several parts may have one id, or none, since a training only records them.
        return replace(made, ids=ids, is_numbered=False)

    def _table(self, use: str) -> pa.Table:
        """The rows of one use; copies new sources.

        Judged texts have ids only if all sources have ids; a training text without an id has null.
        """
        tables = [self._read(source) for source in self._run.sources[use]]
        if use == "train":
            return pa.concat_tables(tables, promote_options="default")
        shared = set.intersection(*(set(table.schema.names) for table in tables))
        return pa.concat_tables([table.select(sorted(shared)) for table in tables])

    def _read(self, source: Source) -> pa.Table:
        if not exists(self._path(source)):
            self._copy(source)
        try:
            file = pq.ParquetFile(io.BytesIO(read_bytes(self._path(source))))
            there = file.schema_arrow.names
            absent = [name for name in ("text", "label") if name not in there]
            if absent:
                raise DataError(
                    f"{source.name}: has no column {' and no column '.join(absent)}; the bilinear "
                    f"ranker needs texts with labels. The columns are {listed(there)}."
                )
            columns = [name for name in ("id", "label", "text") if name in there]
            table = file.read(columns=columns, use_threads=False)
            return pa.table({name: table[name].cast(pa.string()) for name in columns})
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{source.name}: cannot be read as a parquet table of texts ({error})."
            ) from error

    def _copy(self, source: Source) -> None:
        target = self._path(source)
        try:
            atomic_write(target, read_bytes(as_place(source.name)))
        except OSError as error:
            raise DataError(f"{source.name}: cannot be read ({error.strerror}).") from error
        digests = ContentDigests(self._run.work / DIGESTS_NAME)
        check_unchanged(source, self._run.config.data, digests, target)


def label_preferences(documents: Collection) -> SameClass:
    """Preferences between texts by their labels, for evaluation.

    Unlike `same_class`, which serves training, texts without any word of the vocabulary take part,
    so that models with different vocabularies are measured on the same queries.
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
