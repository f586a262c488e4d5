"""Judgement of a night: the judged queries, the level of the test, and its entry in the ledger."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.files.places import Place
from dranking.metrics.per_query import PerQuery, read_per_query
from dranking.retrain.gate.budget import allowance_of
from dranking.retrain.gate.comparison import Reason
from dranking.retrain.gate.gate import Verdict, judge, verdict_of
from dranking.retrain.registry.registry import PER_QUERY_NAME
from dranking.retrain.results import Evaluated, Fitted
from dranking.retrain.workflow import Run


def judge_night(
    run: Run,
    challenger: PerQuery,
    fitted: Fitted,
    evaluated: Evaluated,
    *,
    segments: pa.Array | None,
) -> Verdict:
    """Judge the challenger of a run by the rules of the gate.

    Parameters
    ----------
    run
        The run.
    challenger
        Measures of the challenger on all judged queries.
    fitted, evaluated
        Results of earlier stages.
    segments
        (n_queries,) segment of every judged query; None without segments.
    """
    rules, against = run.config.gate, evaluated.against
    champion = left = None
    if against is not None:
        champion = read_per_query(per_query_file(run, "champion"))
        left = allowance_of(rules, run.registry.ledger, run.run_id, against)
        if rules.queries == "new":
            rows = _new_rows(run, challenger, against)
            if not len(rows):
                text = f"no query that counts was judged after version {against} was chosen"
                found = [Reason("queries", False, 0.0, 1.0, text)]
                return verdict_of(rules, found, None, fitted.n_features, evaluated.drift, None)
            challenger, champion = challenger.take(rows), champion.take(rows)
            segments = None if segments is None else segments.take(pa.array(rows))
    return judge(
        rules,
        challenger,
        champion,
        n_features=fitted.n_features,
        segments=segments,
        drift=evaluated.drift,
        allowance=left,
    )


def _new_rows(run: Run, judged: PerQuery, champion: str) -> NDArray[np.int64]:
    """Rows that count of the queries that the champion was not chosen on.

    A first champion was chosen on no queries, nor was one that was chosen on clicks.
    """
    registry, chosen_on = run.registry, set[str]()
    manifest = registry.manifest(champion)
    if manifest.lineage.get("champion") is not None and PER_QUERY_NAME in manifest.checksums:
        chosen_on = set(map(str, registry.per_query(champion).query_ids.to_pylist()))
    is_new = [str(each) not in chosen_on for each in judged.query_ids.to_pylist()]
    weighs = True if judged.weights is None else judged.weights > 0
    counts = np.isfinite(judged.values[run.config.gate.metric]) & weighs
    return np.flatnonzero(is_new & counts)


def facts_of_test(
    run: Run, fingerprint: str, against: str | None, verdict: Verdict
) -> dict[str, Any] | None:
    """The attributes of the `Entry` of a night but the version, for JSON; None without a test.

    Parameters
    ----------
    run
        The run.
    fingerprint
        Fingerprint of the judged queries.
    against
        Version of the champion; None if there is no champion.
    verdict
        The verdict of the gate.
    """
    if verdict.test is None or against is None:
        return None
    facts = asdict(verdict.test)
    day = date.fromisoformat(facts.pop("day"))
    # A night over midnight takes the test of the day on which the gate has judged.
    end_of_day = datetime.combine(day, time.max, UTC)
    return {
        "time": min(datetime.now(UTC), end_of_day).isoformat(),
        "run_id": run.run_id,
        "against": against,
        "judged": fingerprint,
        "budget": run.config.gate.false_promotions_per_year,
        "metric": run.config.judged_by,
        "accepted": verdict.accepted,
        **facts,
    }


def per_query_file(run: Run, role: str) -> Place:
    """File with the measures of the challenger or the champion."""
    if role == "challenger":
        return run.version_folder / PER_QUERY_NAME
    return run.folder / f"{role}.parquet"
