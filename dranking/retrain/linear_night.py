"""Nights of the rankers that learn from rows of features: their model is a linear one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

from dranking.data.dataset import Dataset
from dranking.errors import DataError
from dranking.export.formats import SUFFIXES, export_model
from dranking.files.commit import atomic_write
from dranking.metrics.per_query import PerQuery
from dranking.rankers.linear.model import LinearModel, load_model
from dranking.report.content import Content, describe
from dranking.retrain.config import RetrainConfig
from dranking.retrain.drift import Profile, parse_profile, population_stability
from dranking.retrain.parts import Parts, joined, sync_statistics
from dranking.retrain.registry import MODEL_NAME
from dranking.retrain.run import PROFILE_NAME, Facts, Run
from dranking.tuning.evaluation import evaluate
from dranking.tuning.families import family_of
from dranking.tuning.search import tune as search
from dranking.tuning.settings import Setting

ON_STATISTICS = ("greedy-rankrls", "rankrls")
"""Rankers that train on a statistics store, so that a night needs no old data."""


class LinearNight:
    """A `Night` of any ranker of `dranking.tuning.families`."""

    model_name = MODEL_NAME

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parts = Parts(run.work / "parts", run.config.data)

    def check(self) -> None:
        """Raise UsageError if the ranker has no such parameters."""
        family_of(self._run.config.model.kind, self._run.config.model.parameters)

    def ingest(self) -> Facts:
        """Ingest sources that are new."""
        sources = self._run.sources
        new = [s.name for found in sources.values() for s in found if s not in self._parts]
        facts: Facts = {"new": new}
        for name in sources:
            data = self._data(name)
            if data.n_unlabelled == data.n_documents:
                raise DataError(f"the {name} data has no labelled document.")
            facts[name] = data.facts
        return facts

    def statistics(self) -> Facts:
        """Bring statistics, distributions and scaling up to date, reading new parts alone."""
        run = self._run
        sources = run.sources["train"]
        facts: Facts = {"used": on_statistics(run.config)}
        if facts["used"]:
            store, n_read = sync_statistics(
                run.work / "statistics", self._parts.open(sources), run.executor
            )
            facts |= {
                "n_parts_read": n_read,
                "n_bytes": store.manifest.n_bytes,
                "n_data_bytes": store.manifest.n_data_bytes,
            }
        first, *others = sources
        total = self._parts.profile(first, self._champion_profile(), run.executor)
        for source in others:
            total += self._parts.profile(source, total, run.executor)
        atomic_write(run.version / PROFILE_NAME, total.model_dump_json(), overwrite=True)
        self._parts.scaled(joined(self._parts.open(sources)), sources)
        return facts

    def tune(self) -> Facts:
        """Choose hyperparameters, where there is something to choose; trains with them too."""
        config = self._run.config
        if not config.is_tuned:
            return {"chosen": None}
        criterion = config.tune.criterion
        result = search(
            self._training_data(),
            regularizations=config.model.regularization,
            mus=config.model.mu,
            eta0s=config.model.eta0,
            parameters=config.model.parameters,
            model=config.model.kind,  # type: ignore[arg-type] # not bilinear: see `night_of`
            max_features=config.model.n_features,
            validation=None if config.data.validation is None else self._data("validation"),
            folds=config.tune.folds,
            leave_query_out=criterion is not None,
            measure=config.tune.metric if criterion is None else criterion.removeprefix("lqo-"),
            convention=config.tune.convention,
            rule=config.tune.rule,
            feature_penalty=config.tune.feature_penalty,
            seed=config.tune.seed,
            executor=self._run.executor,
        )
        result.model.save(self._run.folder / "tuned.json", overwrite=True)
        found = result.as_json()
        atomic_write(self._run.folder / "grid.json", json.dumps(found["grid"]), overwrite=True)
        return {"chosen": found["best"], "n_tried": len(found["grid"])}

    def fit(self) -> Facts:
        """Train the challenger, or take the model that the tuning has trained with its choice."""
        run = self._run
        config = run.config
        if run.facts["tune"]["chosen"] is not None:
            model = load_model(run.folder / "tuned.json")
        else:
            data = self._training_data()
            values = config.model.model_dump(include={"regularization", "mu", "eta0"})
            setting = cast(Setting, {k: v[0] for k, v in values.items() if v is not None})
            size = config.model.n_features or data.n_features
            family = family_of(config.model.kind, config.model.parameters)
            model, _ = family.fit(data, setting, size, run.executor)
        model.save(run.version / MODEL_NAME, overwrite=True)
        return {"n_features": len(model.weights)}

    def load(self, folder: Path) -> LinearModel:
        """The model in a folder of a version's files."""
        return load_model(folder / MODEL_NAME)

    def measure(self, model: LinearModel, measures: Sequence[str]) -> PerQuery:
        """Measures of a model on the queries held out."""
        found = evaluate(
            model,
            self._data("holdout"),
            measures,
            self._run.config.gate.convention,
            executor=self._run.executor,
        )
        return found.per_query

    def drift(self) -> dict[str, float]:
        """The largest population stability index of each feature over the parts that are new.

        New is what the champion was not trained on: a part that is in the way stays so on the
        following nights, too. Empty without anything to compare with.
        """
        run, champion = self._run, self._champion_profile()
        rival = run.rival
        if champion is None or rival is None:
            return {}
        known = run.registry.manifest(rival).lineage.get("parts", ())
        train = run.sources["train"]
        new = [source for source in train if source.key not in known] or train[-1:]
        indices: dict[str, float] = {}
        for source in new:
            profile = self._parts.profile(source, champion, run.executor)
            if champion.feature_names != profile.feature_names:
                return {}
            for name, index in population_stability(champion, profile).items():
                indices[name] = max(index, indices.get(name, 0.0))
        return indices

    def exports(self) -> dict[str, str | bytes]:
        """The model as engines want it."""
        config, model = self._run.config.export, self.load(self._run.version)
        names = {k: v for k, v in config.feature_names.items() if k in model.feature_names}
        export = partial(export_model, model, name=config.name, feature_names=names)
        return {f"{form}{SUFFIXES[form]}": export(form) for form in config.formats}

    def describe(self, model: LinearModel, champion: LinearModel | None) -> Content:
        """What a report says of the model."""
        return describe(
            model,
            self._data("holdout"),
            champion=champion,
            train=self._training_data(),
            metric=self._run.config.gate.metric,
            convention=self._run.config.gate.convention,
            lambdas=self._run.config.model.regularization,
            executor=self._run.executor,
        )

    def keep_only(self) -> None:
        """Delete the parts of other sources."""
        self._parts.keep_only([s for found in self._run.sources.values() for s in found])

    def _data(self, name: str) -> Dataset:
        """The data of some sources."""
        return joined(self._parts.open(self._run.sources[name]))

    def _training_data(self) -> Dataset:
        """What rankers train on: statistics where they suffice.

        Runs share one store. Another may have changed it since this one's statistics were made.
        """
        run = self._run
        parts = self._parts.open(run.sources["train"])
        data: Dataset = joined(parts)
        if run.facts["statistics"]["used"]:
            data, _ = sync_statistics(run.work / "statistics", parts, run.executor)
        return self._parts.scaled(data, run.sources["train"])

    def _champion_profile(self) -> Profile | None:
        """Distributions that the champion was trained on, if it has kept them."""
        registry, rival = self._run.registry, self._run.rival
        if rival is None or PROFILE_NAME not in registry.manifest(rival).checksums:
            return None
        content = registry.read(rival, PROFILE_NAME)
        return parse_profile(content, f"{registry}: {PROFILE_NAME} of version {rival}")


def on_statistics(config: RetrainConfig) -> bool:
    """Whether the statistics suffice: the ranker takes them, and so does its tuning."""
    chosen_without = config.tune.criterion == "lqo-squared_error" or not config.is_tuned
    return config.model.kind in ON_STATISTICS and chosen_without
