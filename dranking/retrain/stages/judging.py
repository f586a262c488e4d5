"""Judgement of a night: the judged queries, the level of the test, and its entry in the ledger."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.files.places import Place
from dranking.metrics.comparison.significance import FEWEST_QUERIES
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.per_query import PerQuery, read_per_query
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.gate.budget import Allowance, allowance_of, statement
from dranking.retrain.gate.fresh_queries import fresh_part, fresh_rows, query_id_digests
from dranking.retrain.gate.gate import Reason, Verdict, judge
from dranking.retrain.gate.ladder import climb, rounded
from dranking.retrain.registry.ledger import Entry, Ledger
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
    rules, against, ledger = run.config.gate, evaluated.against, run.registry.ledger
    champion = None if against is None else read_per_query(per_query_file(run, "champion"))
    left = None if against is None else allowance_of(rules, ledger, run.run_id, against)
    part, rows = None, None
    if rules.rotate is not None and champion is not None:
        made = ledger.find(run.run_id, against or "")
        part, rows = _fresh(rules, challenger, ledger, made)
    if rows is not None:
        challenger = challenger.take(rows)
        champion = None if champion is None else champion.take(rows)
        segments = None if segments is None else segments.take(pa.array(rows))
    exhausted = rules.rotate is not None and champion is not None and part is None
    left = None if exhausted else left
    verdict = judge(
        rules,
        challenger,
        champion,
        n_features=fitted.n_features,
        segments=segments,
        drift=evaluated.drift,
        allowance=left,
    )
    if exhausted:
        verdict = _without_fresh_queries(verdict, rules)
    verdict = replace(verdict, part=part, statement=_statement(rules, verdict, left))
    return _on_the_ladder(rules, verdict, ledger, challenger, champion)


def record_night(
    run: Run, version: str, fingerprint: str, against: str | None, verdict: Verdict
) -> None:
    """Enter the test of a night in the ledger; call this with the registry's lock held.

    Parameters
    ----------
    run
        The run.
    version
        Version of the challenger.
    fingerprint
        Fingerprint of the judged queries.
    against
        Version of the champion. None if there is no champion; then nothing is entered.
    verdict
        The verdict of the gate.
    """
    if verdict.test is None or against is None:
        return
    rules, ledger = run.config.gate, run.registry.ledger
    number, n_promotions = (
        ledger.lond_count(run.run_id, against) if verdict.test.kind == "e-lond" else (0, 0)
    )
    entry = Entry(
        time=datetime.now(UTC),
        run_id=run.run_id,
        version=version,
        against=against,
        judged=fingerprint,
        budget=rules.false_discovery_rate or rules.budget or 0.0,
        number=number,
        n_promotions=n_promotions,
        part=verdict.part,
        reported=verdict.reported,
        metric=run.config.judged_by,
        accepted=verdict.accepted,
        **asdict(verdict.test),
    )
    chosen_on: list[str] = []
    if verdict.accepted and verdict.part is not None and rules.rotate is not None:
        query_ids = read_per_query(per_query_file(run, "challenger")).query_ids
        rows = fresh_rows(query_ids, verdict.part, rules.rotate)
        chosen_on = query_id_digests(query_ids.take(pa.array(rows)))
    run.registry.record(entry, chosen_on)


def per_query_file(run: Run, role: str) -> Place:
    """File with the measures of the challenger or the champion."""
    if role == "challenger":
        return run.version_folder / PER_QUERY_NAME
    return run.folder / f"{role}.parquet"


def _fresh(
    rules: GateConfig, judged: PerQuery, ledger: Ledger, made: Entry | None
) -> tuple[int | None, NDArray[np.int64] | None]:
    """Part and rows of the judged queries that no champion was chosen on; None if none are left.

    A test that is made again is made on the same part.
    """
    n_parts = rules.rotate or 1
    if made is not None and made.part is not None:
        return made.part, fresh_rows(judged.query_ids, made.part, n_parts)
    part = fresh_part(judged, rules.metric, n_parts, ledger.chosen_on)
    if part is None:
        return None, None
    return part, fresh_rows(judged.query_ids, part, n_parts, ledger.chosen_on)


def _without_fresh_queries(verdict: Verdict, rules: GateConfig) -> Verdict:
    """The verdict where no part of the judged queries is left to judge on."""
    text = (
        f"no part of {rules.rotate} has {FEWEST_QUERIES} judged queries on which no champion was "
        "chosen, where queries of unequal weights count for less; add judged queries to "
        "data.holdout, or remove gate.rotate"
    )
    reason = Reason("rotate", False, 0.0, float(FEWEST_QUERIES), text)
    return replace(verdict, accepted=False, reasons=(*verdict.reasons, reason), test=None)


def _statement(rules: GateConfig, verdict: Verdict, left: Allowance | None) -> str:
    test = verdict.test
    if test is None or left is None:
        return ""
    return statement(verdict.accepted, test.evidence, rules.metric, left)


def _on_the_ladder(
    rules: GateConfig,
    verdict: Verdict,
    ledger: Ledger,
    challenger: PerQuery,
    champion: PerQuery | None,
) -> Verdict:
    """The verdict with the best mean so far, in steps, if the configuration asks for that."""
    step = rules.ladder_step
    if step is None or champion is None:
        return verdict
    ours, theirs = (m.summary().metrics[rules.metric] for m in (challenger, champion))
    same = [e for e in ledger.entries if e.metric == rules.metric and e.reported is not None]
    before = same[-1].reported if same else None
    best = rounded(theirs, step) if before is None else before
    sign = 1.0 if higher_is_better(rules.metric) else -1.0
    after = climb(best, ours, step, sign)
    change = round(sign * (after - best), 12)
    text = f"best {rules.metric} so far {after:g} in steps of {step:g}, {change:+g} by this night"
    parts = [part for part in (verdict.statement, text) if part]
    return replace(verdict, reported=after, statement="; ".join(parts))
