"""The stages of a retraining run, in order: each reads what those before it left, and leaves facts.

A stage may be killed anywhere and run again: it writes whole files or none.
"""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import dranking
from dranking.data.atomic import atomic_write
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.errors import DataError, TryAgainError
from dranking.export.formats import SUFFIXES, export_model, save_export
from dranking.metrics.per_query import read_per_query, write_per_query
from dranking.rankers.linear import LinearModel, load_model
from dranking.report.content import describe
from dranking.report.page import render
from dranking.report.sections import page_of
from dranking.retrain.config import RetrainConfig, config_digest
from dranking.retrain.drift import Profile, population_stability
from dranking.retrain.gate import judge
from dranking.retrain.parts import Parts, Source, joined, sync_statistics
from dranking.retrain.registry import MODEL_NAME, Registry
from dranking.tuning.evaluation import evaluate as measure
from dranking.tuning.families import family_of
from dranking.tuning.search import tune as search
from dranking.tuning.settings import Setting

Facts: TypeAlias = dict[str, Any]

ON_STATISTICS = ("greedy-rankrls", "rankrls")
"""Rankers that train on a statistics store, so that a night needs no old data."""

PROFILE_NAME = "profile.json"
PER_QUERY_NAME = "per_query.parquet"
GATE_NAME = "gate.json"
REPORT_NAME = "report.html"


class Run:
    """What the stages of one run share.

    Attributes
    ----------
    config, run_id
        What was asked, and the name of the run.
    sources
        Training sources in the window, holdout and validation ones, by these names.
    folder
        The run's own directory.
    parts, registry, executor
        Data, versions, and where work is done.
    facts
        What each stage that is done has left.
    """

    def __init__(
        self,
        config: RetrainConfig,
        run_id: str,
        sources: Mapping[str, Sequence[Source]],
        executor: Executor,
    ) -> None:
        self.config = config
        self.run_id = run_id
        self.sources = sources
        self.work = config.run.work
        self.folder = self.work / "runs" / run_id
        self.parts = Parts(self.work / "parts", config.data)
        self.registry = Registry(config.registry.location)
        self.executor = executor
        self.facts: dict[str, Facts] = {}

    @property
    def version(self) -> Path:
        """The files that will be the registry's version."""
        return self.folder / "version"

    @property
    def model(self) -> LinearModel:
        """The challenger."""
        return load_model(self.version / MODEL_NAME)

    @property
    def rival(self) -> str | None:
        """Version that the challenger must beat: the champion.

        Where that is what this very run has promoted, and it runs again, the one before.
        """
        aliases = self.registry.aliases
        if aliases.champion is None:
            return None
        own = self.registry.manifest(aliases.champion).run_id == self.run_id
        return aliases.previous if own else aliases.champion

    def data(self, name: str) -> Dataset:
        """The data of some sources."""
        return joined(self.parts.open(self.sources[name]))

    @property
    def training_data(self) -> Dataset:
        """What rankers train on: statistics where they suffice.

        Runs share one store. Another may have changed it since this one's statistics were made.
        """
        parts = self.parts.open(self.sources["train"])
        if self.facts["statistics"]["used"]:
            return sync_statistics(self.work / "statistics", parts, self.executor)[0]
        return joined(parts)


def validate(run: Run) -> Facts:
    """Find out what can be found out before any work."""
    family_of(run.config.model.kind, run.config.model.parameters)
    return {name: [source.name for source in found] for name, found in run.sources.items()}


def ingest(run: Run) -> Facts:
    """Ingest sources that are new."""
    new = [s.name for found in run.sources.values() for s in found if s not in run.parts]
    facts: Facts = {"new": new}
    for name in run.sources:
        data = run.data(name)
        if data.n_unlabelled == data.n_documents:
            raise DataError(f"the {name} data has no labelled document.")
        facts[name] = {
            "fingerprint": data.fingerprint,
            "n_documents": data.n_documents,
            "n_queries": data.n_queries,
            "n_features": data.n_features,
        }
    return facts


def statistics(run: Run) -> Facts:
    """Bring statistics and distributions up to date, reading new parts alone."""
    facts: Facts = {"used": _on_statistics(run.config)}
    if facts["used"]:
        parts = run.parts.open(run.sources["train"])
        store, facts["n_parts_read"] = sync_statistics(run.work / "statistics", parts, run.executor)
        facts |= {"n_bytes": store.manifest.n_bytes, "n_data_bytes": store.manifest.n_data_bytes}
    first, *others = run.sources["train"]
    total = run.parts.profile(first, _champion_profile(run), run.executor)
    for source in others:
        total += run.parts.profile(source, total, run.executor)
    atomic_write(run.version / PROFILE_NAME, total.model_dump_json(), overwrite=True)
    return facts


def tune(run: Run) -> Facts:
    """Choose hyperparameters; trains with them too."""
    config = run.config
    if not config.is_tuned:
        return {"chosen": None}
    criterion = config.tune.criterion
    result = search(
        run.training_data,
        regularizations=config.model.regularization,
        parameters=config.model.parameters,
        model=config.model.kind,
        max_features=config.model.n_features,
        validation=None if config.data.validation is None else run.data("validation"),
        folds=config.tune.folds,
        leave_query_out=criterion is not None,
        measure=config.tune.metric if criterion is None else criterion.removeprefix("lqo-"),
        convention=config.tune.convention,
        rule=config.tune.rule,
        feature_penalty=config.tune.feature_penalty,
        seed=config.tune.seed,
        executor=run.executor,
    )
    result.model.save(run.folder / "tuned.json", overwrite=True)
    found = result.as_json()
    atomic_write(run.folder / "grid.json", json.dumps(found["grid"]), overwrite=True)
    return {"chosen": found["best"], "n_tried": len(found["grid"])}


def fit(run: Run) -> Facts:
    """Train the challenger, or take the model that the tuning has trained with what it chose."""
    config = run.config
    if run.facts["tune"]["chosen"] is not None:
        model = load_model(run.folder / "tuned.json")
    else:
        data = run.training_data
        setting = Setting(regularization=config.model.regularization[0])
        size = config.model.n_features or data.n_features
        family = family_of(config.model.kind, config.model.parameters)
        model, _ = family.fit(data, setting, size, run.executor)
    model.save(run.version / MODEL_NAME, overwrite=True)
    return {"n_features": len(model.weights)}


def evaluate(run: Run) -> Facts:
    """Measure challenger and champion on the data held out, and how far the data has moved."""
    config = run.config
    rival = run.rival
    models = {"challenger": run.model}
    if rival is not None:
        models["champion"] = _stored_model(run.registry, rival)
    measures = tuple(dict.fromkeys((config.gate.metric, *config.run.metrics)))
    means: dict[str, dict[str, float | None]] = {}
    for name, model in models.items():
        found = measure(
            model, run.data("holdout"), measures, config.gate.convention, executor=run.executor
        )
        write_per_query(_per_query_file(run, name), found.per_query, overwrite=True)
        means[name] = {m: _finite(value) for m, value in found.metrics.items()}
    return {
        "against": rival,
        "convention": config.gate.convention,
        "n_queries": found.n_queries,
        "metrics": means,
        "drift": _drift(run),
    }


def gate(run: Run) -> Facts:
    """Judge the challenger."""
    against = run.facts["evaluate"]["against"]
    verdict = judge(
        run.config.gate,
        read_per_query(_per_query_file(run, "challenger")),
        None if against is None else read_per_query(_per_query_file(run, "champion")),
        n_features=len(run.model.weights),
        segments=_segments(run),
        drift=run.facts["evaluate"]["drift"],
    )
    facts = verdict.as_json()
    atomic_write(run.version / GATE_NAME, json.dumps(facts, indent=1), overwrite=True)
    return facts


def export(run: Run) -> Facts:
    """Write the model as engines want it, and the report."""
    config = run.config.export
    names = {k: v for k, v in config.feature_names.items() if k in run.model.feature_names}
    files = []
    for form in config.formats:
        content = export_model(run.model, form, name=config.name, feature_names=names)
        files.append(f"exports/{form}{SUFFIXES[form]}")
        save_export(run.version / files[-1], content, overwrite=True)
    if config.report:
        files.append(REPORT_NAME)
        atomic_write(run.version / REPORT_NAME, _report(run), overwrite=True)
    return {"files": files}


def publish(run: Run) -> Facts:
    """Store the version, and promote it if the gate let it pass."""
    registry = run.registry
    with registry.locked():
        version = registry.find(run.version, run.run_id)  # of an attempt that was interrupted
        if run.rival != run.facts["evaluate"]["against"]:
            raise TryAgainError(
                f"{registry}: the champion has changed since it was measured; run again to "
                "measure against the new one."
            )
        if version is None:
            version = registry.add(
                run.version,
                run_id=run.run_id,
                lineage=_lineage(run),
                metrics=run.facts["evaluate"]["metrics"]["challenger"],
            )
        else:
            registry.nominate(version)
        if run.facts["gate"]["accepted"]:
            registry.promote(version)
        deleted = registry.prune(run.config.registry.keep)
        aliases = registry.aliases.model_dump()
    run.parts.keep_only([source for found in run.sources.values() for source in found])
    return {"version": version, "aliases": aliases, "deleted": deleted}


Stage: TypeAlias = Callable[[Run], Facts]

STAGES: dict[str, Stage] = {
    stage.__name__: stage
    for stage in (validate, ingest, statistics, tune, fit, evaluate, gate, export, publish)
}


def _on_statistics(config: RetrainConfig) -> bool:
    """Whether the statistics suffice: the ranker takes them, and so does its tuning."""
    chosen_without = config.tune.criterion == "lqo-squared_error" or not config.is_tuned
    return config.model.kind in ON_STATISTICS and chosen_without


def _per_query_file(run: Run, name: str) -> Path:
    if name == "challenger":
        return run.version / PER_QUERY_NAME
    return run.folder / f"{name}.parquet"


def _champion_profile(run: Run) -> Profile | None:
    """Distributions that the champion was trained on, if it has kept them."""
    rival = run.rival
    if rival is None or PROFILE_NAME not in run.registry.manifest(rival).checksums:
        return None
    return Profile.model_validate_json(run.registry.read(rival, PROFILE_NAME))


def _drift(run: Run) -> dict[str, float]:
    """How far the newest part is from what the champion was trained on; empty if not known."""
    champion = _champion_profile(run)
    if champion is None:
        return {}
    newest = run.parts.profile(run.sources["train"][-1], champion, run.executor)
    if champion.feature_names != newest.feature_names:
        return {}
    return population_stability(champion, newest)


def _stored_model(registry: Registry, version: str) -> LinearModel:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, MODEL_NAME)
        file.write_bytes(registry.read(version, MODEL_NAME))
        return load_model(file)


def _segments(run: Run) -> pa.Array | None:
    """The segment of each query held out."""
    data = run.config.data
    if data.segments is None:
        return None
    try:
        table = pq.read_table(data.segments, columns=["qid", data.segment_column])
        known = table["qid"].cast(pa.string())
        segments = table[data.segment_column].cast(pa.string()).combine_chunks()
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DataError(
            f"{data.segments}: needs the columns qid and {data.segment_column} ({error})."
        ) from error
    queries = run.data("holdout").query_ids().cast(pa.string())
    return segments.take(pc.index_in(queries, known))


def _report(run: Run) -> str:
    """The page about the challenger."""
    config, against = run.config, run.facts["evaluate"]["against"]
    content = describe(
        run.model,
        run.data("holdout"),
        champion=None if against is None else _stored_model(run.registry, against),
        train=run.training_data,
        metric=config.gate.metric,
        convention=config.gate.convention,
        lambdas=config.model.regularization,
        executor=run.executor,
    )
    parts = [source.name for source in run.sources["train"]]
    content = replace(
        content,
        verdict=run.facts["gate"],
        drift=run.facts["evaluate"]["drift"],
        max_drift=config.gate.max_drift,
        facts={
            **content.facts,
            "run": run.run_id,
            "champion": against or "none yet",
            "training parts": f"{len(parts)}, {parts[0]} to {parts[-1]}",
        },
        command=f"dranking retrain {config.source}",
    )
    return render(page_of(content, f"Retraining run {run.run_id}"))


def _lineage(run: Run) -> Facts:
    return {
        "data": {name: run.facts["ingest"][name] for name in run.sources},
        "sources": run.facts["validate"],
        "configuration": config_digest(run.config),
        "model": run.config.model.model_dump(mode="json"),
        "chosen": run.facts["tune"]["chosen"],
        "champion": run.facts["evaluate"]["against"],
        "accepted": run.facts["gate"]["accepted"],
        "environment": {
            "dranking": dranking.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
