"""The stages of a retraining run, in order: each reads what those before it left, and leaves facts.

A stage may be killed anywhere and run again: it writes whole files or none.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import dranking
from dranking.errors import DataError, TryAgainError
from dranking.files.commit import atomic_write
from dranking.metrics.per_query import PerQuery, read_per_query, write_per_query
from dranking.report.page import render
from dranking.report.sections import page_of
from dranking.retrain.config import BILINEAR, config_digest
from dranking.retrain.gate import judge
from dranking.retrain.linear_night import LinearNight
from dranking.retrain.run import Facts, Night, Run
from dranking.retrain.text_night import TextNight

PER_QUERY_NAME = "per_query.parquet"
GATE_NAME = "gate.json"
REPORT_NAME = "report.html"
PACKAGES = ("numpy", "scipy", "numba", "pyarrow")
"""Of which a version records what was installed."""


def night_of(run: Run) -> Night:
    """How the stages treat the kind of ranker that a run trains."""
    return TextNight(run) if run.config.model.kind == BILINEAR else LinearNight(run)


def validate(run: Run) -> Facts:
    """Find out what can be found out before any work."""
    night_of(run).check()
    return {name: [source.name for source in found] for name, found in run.sources.items()}


def ingest(run: Run) -> Facts:
    """Ingest sources that are new."""
    return night_of(run).ingest()


def statistics(run: Run) -> Facts:
    """Bring what is derived from the training data up to date, reading new parts alone."""
    return night_of(run).statistics()


def tune(run: Run) -> Facts:
    """Choose hyperparameters; trains with them too."""
    return night_of(run).tune()


def fit(run: Run) -> Facts:
    """Train the challenger, or take the model that the tuning has trained with what it chose."""
    return night_of(run).fit()


def evaluate(run: Run) -> Facts:
    """Measure challenger and champion on the data held out, and how far the data has moved."""
    config, night, rival = run.config, night_of(run), run.rival
    models = {"challenger": night.load(run.version)}
    if rival is not None:
        models["champion"] = _stored_model(run, rival)
    measures = tuple(dict.fromkeys((config.gate.metric, *config.run.metrics)))
    means: dict[str, dict[str, float | None]] = {}
    n_queries = 0
    for name, model in models.items():
        found = night.measure(model, measures)
        write_per_query(_per_query_file(run, name), found, overwrite=True)
        means[name] = {m: _finite(value) for m, value in found.summary().metrics.items()}
        n_queries = found.n_queries
    return {
        "against": rival,
        "convention": config.gate.convention,
        "n_queries": n_queries,
        "metrics": means,
        "drift": night.drift(),
    }


def gate(run: Run) -> Facts:
    """Judge the challenger."""
    challenger = read_per_query(_per_query_file(run, "challenger"))
    against = run.facts["evaluate"]["against"]
    verdict = judge(
        run.config.gate,
        challenger,
        None if against is None else read_per_query(_per_query_file(run, "champion")),
        n_features=run.facts["fit"]["n_features"],
        segments=_segments(run, challenger),
        drift=run.facts["evaluate"]["drift"],
    )
    facts = verdict.as_json()
    atomic_write(run.version / GATE_NAME, json.dumps(facts, indent=1), overwrite=True)
    return facts


def export(run: Run) -> Facts:
    """Write the model as engines want it, and the report."""
    files = {f"exports/{name}": content for name, content in night_of(run).exports().items()}
    if run.config.export.report:
        files[REPORT_NAME] = _report(run)
    for name, content in files.items():
        atomic_write(run.version / name, content, overwrite=True)
    return {"files": list(files)}


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
    night_of(run).keep_only()
    return {"version": version, "aliases": aliases, "deleted": deleted}


Stage: TypeAlias = Callable[[Run], Facts]

STAGES: dict[str, Stage] = {
    stage.__name__: stage
    for stage in (validate, ingest, statistics, tune, fit, evaluate, gate, export, publish)
}


def _per_query_file(run: Run, name: str) -> Path:
    if name == "challenger":
        return run.version / PER_QUERY_NAME
    return run.folder / f"{name}.parquet"


def _stored_model(run: Run, version: str) -> Any:
    """The model of a version of the registry."""
    night = night_of(run)
    with tempfile.TemporaryDirectory() as folder:
        if not run.registry.copy(version, night.model_name, Path(folder)):
            raise DataError(
                f"{run.registry}: the champion, version {version}, is no model of rankers such as "
                f"{run.config.model.kind}, so they cannot be compared; give each of both a "
                "registry of its own."
            )
        return night.load(Path(folder))


def _segments(run: Run, held_out: PerQuery) -> pa.Array | None:
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
    return segments.take(pc.index_in(held_out.query_ids.cast(pa.string()), known))


def _report(run: Run) -> str:
    """The page about the challenger."""
    config, night, against = run.config, night_of(run), run.facts["evaluate"]["against"]
    content = night.describe(
        night.load(run.version), None if against is None else _stored_model(run, against)
    )
    parts = [source.name for source in run.sources["train"]]
    content = replace(
        content,
        verdict=run.facts["gate"],
        segments=_segments(run, content.challenger),
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
        "parts": [source.key for source in run.sources["train"]],
        "configuration": config_digest(run.config),
        "model": run.config.model.model_dump(mode="json"),
        "chosen": run.facts["tune"]["chosen"],
        "champion": run.facts["evaluate"]["against"],
        "accepted": run.facts["gate"]["accepted"],
        "environment": {
            "dranking": dranking.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
