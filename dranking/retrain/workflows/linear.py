"""The stages of a run for rankers that learn from rows of features and make linear models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dranking.data.dataset import Dataset
from dranking.errors import DataError
from dranking.files.places import Place
from dranking.files.writing.atomic_files import atomic_write
from dranking.ingestion.known_values import KnownValues
from dranking.ingestion.rows.row_rules import raw_columns_of
from dranking.models.evaluation import Evaluation, evaluate
from dranking.models.export.formats import SUFFIXES, export_model
from dranking.models.linear.model import LinearModel, load_model
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.report.content import Content
from dranking.report.describe import describe, describe_unjudged
from dranking.retrain.config.config import RetrainConfig
from dranking.retrain.config.tables import ClicksConfig
from dranking.retrain.gate.gate import PartDrift
from dranking.retrain.quarantine import set_aside_if_wrong
from dranking.retrain.registry.registry import MODEL_NAME
from dranking.retrain.results import (
    ClickLabels,
    Fitted,
    Ingested,
    RowFacts,
    StatisticsUpdate,
    Tuned,
)
from dranking.retrain.sources.sources import delete_others
from dranking.retrain.work_folder import delete
from dranking.retrain.workflow import PROFILE_NAME, Run
from dranking.retrain.workflows.champion import (
    champion_profile,
    check_champion_scores,
    known_features,
    with_known_values,
)
from dranking.retrain.workflows.click_labels import (
    FOLDER,
    label_training_data,
    labelled_parts,
    sync_click_statistics,
    sync_shared_statistics,
)
from dranking.retrain.workflows.drift import drift_between
from dranking.retrain.workflows.incremental_statistics import merged_queries, sync_statistics
from dranking.retrain.workflows.judged_queries import (
    check_judged_weights,
    judged_ids,
    left_out,
    without_queries,
)
from dranking.retrain.workflows.parts import Parts, joined
from dranking.retrain.workflows.whole_queries import codes_of, share_queries, whole_queries
from dranking.tuning.families import family_of
from dranking.tuning.folds import QueryKFold
from dranking.tuning.scores import LEAVE_QUERY_OUT, Validation
from dranking.tuning.search import tune as search
from dranking.tuning.settings import Setting

ON_STATISTICS = ("greedy-rankrls", "rankrls")
"""Rankers that can be trained on a statistics store, without the documents."""


class LinearWorkflow:
    """A `Workflow` of any ranker of `dranking.tuning.families`."""

    model_name = MODEL_NAME

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parts = Parts(
            run.work / "parts", run.config.data, run.executor, labelled=run.config.clicks is None
        )

    def check(self) -> None:
        """Raise UsageError if the ranker does not have the configured parameters."""
        family_of(self._run.config.model.kind, self._run.config.model.parameters)

    def ingest(self) -> Ingested[RowFacts]:
        """Ingest the sources that are new.

        Raises
        ------
        DataError
            If a source is wrong, the data of some use has no labelled document, a judged query
            weighs more than the gate allows, or queries are both trained on and judged on, and the
            configuration refuses that or nothing else is left.
        PartSetAsideError
            If a training source is wrong and was set aside, as the configuration allows.
        """
        run = self._run
        self._parts = replace(self._parts, features=known_features(run))
        new = [source for source in run.all_sources if source not in self._parts]
        judged = {use: found for use, found in run.sources.items() if use != "train"}
        self._parts = with_known_values(run, self._parts)
        for source in run.sources["train"]:
            with set_aside_if_wrong(run, source):
                [part] = self._parts.open([source])
            self._parts = self._parts.with_features_of(raw_columns_of(part), source)
        for sources in judged.values():
            self._parts.open(sources)
        found = {}
        for use in run.sources:
            data = self._data(use)
            from_clicks = use == "train" and run.config.clicks is not None
            if not from_clicks and data.n_unlabelled == data.n_documents:
                raise DataError(f"the {use} data has no labelled document.")
            found[use] = RowFacts(**data.facts)
            if use != "train":
                check_champion_scores(run, use, data)
            if use == "holdout":
                check_judged_weights(run, data)
        n_left_out, notes = self._check_left_out()
        if run.config.clicks is not None or not on_statistics(run.config):  # all ids are read
            codes, is_repeated = codes_of(self._parts.open(run.sources["train"]))
            n_queries = len(np.unique(codes))
            notes += merged_queries(len(np.unique(codes[is_repeated])), n_queries)
            found["train"] = replace(found["train"], n_queries=n_queries)
        if isinstance(known := self._parts.known, KnownValues) and known.constants.fills:
            notes += (
                f"values for missing ones (data.null: {known.constants.policy}) were fitted to the "
                "training parts of this run, since no part was ingested before; later runs keep "
                "them",
            )
        return Ingested(tuple(source.name for source in new), dict(found), notes, n_left_out)

    @cached_property
    def _left_out(self) -> pa.Array:
        """Ids of the queries that are left out of the training, since they are judged."""
        return judged_ids(self._parts, self._run.sources)

    def _check_left_out(self) -> tuple[int, tuple[str, ...]]:
        """Number of training queries that are judged, and a note; DataError if none are left."""
        own = pa.concat_arrays([self._parts.query_ids(s) for s in self._run.sources["train"]])
        own = own.unique()
        shared = own.filter(pc.is_in(own, self._left_out)).to_pylist()
        return left_out(shared, len(own), self._run.config.data.holdout_overlap)

    def update_statistics(self) -> StatisticsUpdate:
        """Bring statistics, distributions and scaling up to date, reading new parts only."""
        run = self._run
        delete(self._shared)  # of an earlier execution of this stage, with its labels
        sources = run.sources["train"]
        update = StatisticsUpdate(used=on_statistics(run.config))
        if run.config.clicks is not None:
            update = self._update_on_clicks(run.config.clicks)
        elif update.used:
            parts = self._parts.open(sources)
            store, n_changed = sync_statistics(run.work / "statistics", parts, run.executor)
            manifest = store.manifest
            update = StatisticsUpdate(
                used=True,
                n_parts_read=n_changed,
                n_bytes=manifest.n_bytes,
                n_data_bytes=manifest.n_data_bytes,
                n_queries=store.n_queries,
                notes=merged_queries(manifest.n_merged, store.n_queries),
            )
        first, *others = sources
        total = self._parts.profile(first, champion_profile(self._run), run.executor)
        for source in others:
            total += self._parts.profile(source, total, run.executor)
        profile = run.version_folder / PROFILE_NAME
        atomic_write(profile, total.to_bytes(), overwrite=True)
        self._parts.scaled(joined(self._parts.open(sources)), sources)
        return update

    def _update_on_clicks(self, clicks: ClicksConfig) -> StatisticsUpdate:
        """Label the training parts by clicks, and relabel their statistics if those are used."""
        parts = self._training_parts()
        labels = label_training_data(self._run, clicks, parts)
        if not on_statistics(self._run.config):
            return StatisticsUpdate(used=False, labels=labels)
        stores, n_changed = self._click_statistics(clicks, labels)
        return StatisticsUpdate(
            used=True,
            n_bytes=sum(store.manifest.n_bytes for store in stores),
            n_data_bytes=sum(store.manifest.n_data_bytes for store in stores),
            labels=labels,
            n_blocks=sum(store.n_blocks for store in stores),
            n_blocks_changed=n_changed,
        )

    def _click_statistics(
        self, clicks: ClicksConfig, labels: ClickLabels | None
    ) -> tuple[list[StatisticsDataset], int]:
        """The statistics of the labelled parts, and the number of their blocks that changed."""
        parts = labelled_parts(self._run, clicks, self._training_parts(), labels)
        labelled, run = list(parts.values()), self._run
        if share_queries(labelled):
            return sync_shared_statistics(run.work / "click-statistics", labelled, run.executor)
        places = [self._parts.root / f"{key}.click-statistics" for key in parts]
        return sync_click_statistics(places, labelled, run.executor)

    def tune(self, statistics: StatisticsUpdate) -> Tuned:
        """Choose hyperparameters if there is a choice, and keep the model trained with them."""
        config = self._run.config
        if not config.is_tuned:
            return Tuned()
        criterion = config.tune.criterion
        values = config.model.model_dump(include={"regularization", "mu", "eta0"})
        result = search(
            self._training_data(statistics),
            {name: tried for name, tried in values.items() if tried is not None},
            validation=self._validation(),
            parameters=config.model.parameters,
            model=config.model.kind,  # type: ignore[arg-type] # not bilinear: see `workflow_of`
            max_features=config.model.n_features,
            metric=config.tune.metric if criterion is None else criterion.removeprefix("lqo-"),
            convention=config.tune.convention,
            rule=config.tune.rule,
            executor=self._run.executor,
        )
        result.model.save(self._tuned_model, overwrite=True)
        found = result.as_json()
        atomic_write(self._run.folder / "grid.json", json.dumps(found["grid"]), overwrite=True)
        return Tuned(chosen=found["chosen"], n_tried=len(found["grid"]))

    def _validation(self) -> Validation:
        """The data or folds on which hyperparameters are compared; exactly one is configured."""
        config = self._run.config
        if config.tune.criterion is not None:
            return LEAVE_QUERY_OUT
        if config.tune.folds is not None:
            return QueryKFold(config.tune.folds, config.tune.seed)
        return self._data("validation")

    def fit(self, statistics: StatisticsUpdate, tuned: Tuned) -> Fitted:
        """Train the challenger, or take the model that the stage tune has trained."""
        run = self._run
        config = run.config
        if tuned.chosen is not None:
            model = load_model(self._tuned_model)
        else:
            data = self._training_data(statistics)
            values = config.model.model_dump(include={"regularization", "mu", "eta0"})
            setting = cast(Setting, {k: v[0] for k, v in values.items() if v is not None})
            size = config.model.n_features or data.n_features
            family = family_of(config.model.kind, config.model.parameters)
            model, _ = family.fit(data, setting, size, run.executor)
        if statistics.labels is not None:  # which statistics do not record
            model = model.trained_on_clicks_of(statistics.labels.nights)
        model.save(run.version_folder / MODEL_NAME, overwrite=True)
        return Fitted(n_features=len(model.weights))

    def load(self, folder: Place) -> LinearModel:
        """Load the model, with its training queries, from a folder of the files of a version."""
        model = load_model(folder / MODEL_NAME)
        model.trained_queries()  # the folder may be gone when they are asked for
        return model

    def measure(self, model: LinearModel, measures: Sequence[str]) -> Evaluation:
        """Measure a model on the queries held out, under the gate's convention."""
        return evaluate(
            model,
            self._data("holdout"),
            measures,
            self._run.config.gate.convention,
            executor=self._run.executor,
        )

    def drift(self) -> tuple[PartDrift, ...]:
        """Shifts of the features of every new part since the champion's training data.

        A part is new if the rival was not trained on it: a shifted part is reported until a
        champion has been trained on it. If no part is new, the newest part is compared. The
        probability ``gate.drift_level`` is shared among the parts (Bonferroni). The result is empty
        without a rival, or if the features differ.
        """
        run, champion = self._run, champion_profile(self._run)
        rival = run.rival
        if champion is None or rival is None:
            return ()
        known = run.registry.manifest(rival).lineage.get("parts", ())
        train = run.sources["train"]
        new = [source for source in train if source.key not in known] or train[-1:]
        found = []
        for source in new:
            profile = self._parts.profile(source, champion, run.executor)
            if champion.feature_names != profile.feature_names:
                return ()
            level = run.config.gate.drift_level / len(new)
            shifts = drift_between(champion, profile, level=level)
            sizes = len(champion.sample), len(profile.sample)
            found.append(PartDrift(source.name, *sizes, shifts))
        return tuple(found)

    def exports(self) -> dict[str, str | bytes]:
        """Export the challenger in the configured formats: file names to contents."""
        config, model = self._run.config.export, self.load(self._run.version_folder)
        names = {k: v for k, v in config.feature_names.items() if k in model.feature_names}
        export = partial(
            export_model,
            model,
            name=config.name,
            feature_names=names,
            missing_as_zero=config.missing_as_zero,
        )
        stores = {"solr": config.store}
        return {
            f"{form}{SUFFIXES[form]}": export(form, store=stores.get(form))
            for form in config.formats
        }

    def describe(
        self,
        model: LinearModel,
        champion: LinearModel | None,
        ingested: Ingested[RowFacts],
        statistics: StatisticsUpdate,
    ) -> Content:
        """Compute the report of a model beside a champion (None if there is none)."""
        if self._run.config.data.holdout is None:
            return describe_unjudged(model, self._data("train"), self._run.executor)
        return describe(
            model,
            self._data("holdout"),
            champion=champion,
            train=self._training_data(statistics),
            metric=self._run.config.gate.metric,
            convention=self._run.config.gate.convention,
            lambdas=self._run.config.model.regularization,
            executor=self._run.executor,
        )

    def delete_unused(self) -> None:
        """Delete the parts of sources that this run does not use, and its labelled data."""
        delete_others(self._parts.root, self._run.all_sources)
        for folder in (self._run.folder / FOLDER, self._shared):
            delete(folder)

    @property
    def _tuned_model(self) -> Place:
        return self._run.folder / "tuned.json"

    def _data(self, use: str) -> Dataset:
        """The data of one use: train, holdout or validation."""
        return joined(self._parts.open(self._run.sources[use]))

    def _training_data(self, statistics: StatisticsUpdate) -> Dataset:
        """The statistics of the training data if they are used, otherwise its documents.

        All runs share the statistics stores. They are brought up to date again, as another run may
        have changed them since the stage statistics of this run.
        """
        run = self._run
        clicks, parts = run.config.clicks, self._training_parts()
        data: Dataset
        if clicks is not None and statistics.used:
            data = joined(self._click_statistics(clicks, statistics.labels)[0])
        elif clicks is not None:
            labelled = labelled_parts(run, clicks, parts, statistics.labels)
            data = self._whole(list(labelled.values()))
        elif statistics.used:
            whole = list(parts.values())
            data, _ = sync_statistics(run.work / "statistics", whole, run.executor)
        else:
            data = self._whole(list(parts.values()))
        return without_queries(self._parts.scaled(data, run.sources["train"]), self._left_out)

    def _whole(self, parts: Sequence[Dataset]) -> Dataset:
        """Parts as one data set in which a query id is one query."""
        return whole_queries(parts, self._shared, self._run.executor.memory_bytes)

    @property
    def _shared(self) -> Place:
        """Folder of this run with the queries that several parts have."""
        return self._run.folder / "shared-queries"

    def _training_parts(self) -> dict[str, Dataset]:
        """The training parts by the keys of their sources, in order."""
        sources = self._run.sources["train"]
        keys = [source.key for source in sources]
        return dict(zip(keys, self._parts.open(sources), strict=True))


def on_statistics(config: RetrainConfig) -> bool:
    """Whether ranker and tuning both work on statistics stores."""
    chosen_without = config.tune.criterion == "lqo-squared_error" or not config.is_tuned
    return config.model.kind in ON_STATISTICS and chosen_without
