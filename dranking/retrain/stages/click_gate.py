"""The gate without judged queries: values of challenger and champion on clicks of later nights.

The clicks of the newest nights are held out of the training. Challenger and champion rank all
documents of the training parts, those of a query in several parts as its newest part has them, and
the gate compares the values of their pages, document by document
(`dranking.clicks.off_policy.off_policy`): the lower end of the difference
(`dranking.clicks.off_policy.rare_clicks`) must be above 0 at the level that the ledger gives to the
test. Documents that the clicks do not cover count as the worst for the challenger, and a difference
that is mostly not covered rejects the challenger.

The lower end holds however rare clicks are for the queries of the log, if they are independent and
propensities are known. It is approximate in the errors of propensities, in those of users who come
back, and in the spread of the queries, and knows of no few good queries that the log lacks by
chance: no test is valid for all distributions of queries (``pipelines.reproduce.nightly_gate``
measures the budget).

Conditions. Users click by the position-based model with the frozen propensities, whose errors the
interval carries along. No model was trained on the clicks: nights that the champion was trained
on are left out. If runs are more frequent than ``clicks.judged_nights``, some nights are judged on
again although a champion was chosen on them; such a champion was lucky on them, which makes later
challengers look worse.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from scipy import special

from dranking.clicks.evaluation import values_of_pages
from dranking.clicks.off_policy.off_policy import QueryValues
from dranking.clicks.off_policy.off_policy_value import OffPolicyValue, off_policy_value
from dranking.clicks.off_policy.rare_clicks import lower_end
from dranking.clicks.propensities.propensities import Propensities, load_propensities
from dranking.errors import DataError
from dranking.files.places import Place
from dranking.files.reading import read_bytes
from dranking.files.writing.atomic_files import atomic_write
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.config.tables import ClicksConfig
from dranking.retrain.gate.bets import POWER
from dranking.retrain.gate.budget import Allowance, GateTest, allowance_of
from dranking.retrain.gate.comparison import Reason, at_least, postponed, student_p_value
from dranking.retrain.gate.gate import PartDrift, Verdict, verdict_of
from dranking.retrain.results import Evaluated, Fitted
from dranking.retrain.workflow import Run
from dranking.retrain.workflows.later_clicks import fingerprint_of, judged_clicks
from dranking.retrain.workflows.parts import Parts, joined_once

CONVENTION = "position-based clicks"
"""Stands in place of the convention of measures in records of runs that are judged on clicks."""

SHOWN = 5e-5
"""Smallest change that the fourth decimal shows."""

SMALLEST = float(np.finfo(np.float64).min)
"""Stands for a missing lower end of an interval, which would be minus infinity: JSON has none."""


def evaluate_on_clicks(
    run: Run, clicks: ClicksConfig, models: Mapping[str, Any], drift: tuple[PartDrift, ...]
) -> Evaluated:
    """Values of challenger and champion, and of their difference, which is kept for the gate.

    Parameters
    ----------
    run
        The run, whose training parts have the documents of the queries.
    clicks
        The clicks.
    models
        The models ``challenger`` and, if there is one, ``champion``.
    drift
        Shifts of the features of every new part.
    """
    parts = Parts(run.work / "parts", run.config.data, run.executor, labelled=False)
    data = joined_once(parts.open(run.sources["train"]))
    store, propensities = judged_clicks(run, clicks), load_propensities(clicks.propensities)
    how = (data, store, propensities, [clicks.reward], run.executor)
    means: dict[str, dict[str, float | None]] = {}
    for role, model in models.items():
        [values] = values_of_pages([model], *how).values()
        means[role] = {clicks.reward: _mean(values)}
    [values] = values_of_pages(list(models.values()), *how).values()
    atomic_write(_values_file(run), _packed(values), overwrite=True)
    return Evaluated(
        run.rival, CONVENTION, len(values.lower), means, drift, clicks=fingerprint_of(store)
    )


def judge_on_clicks(
    run: Run, clicks: ClicksConfig, fitted: Fitted, evaluated: Evaluated
) -> Verdict:
    """Judge the challenger of a run by its value on clicks, and by the rules about itself."""
    rules, against = run.config.gate, evaluated.against
    reasons: list[Reason] = []
    test, left = None, None
    if rules.minimum_score is not None:
        mean = evaluated.metrics["challenger"][clicks.reward]
        value = SMALLEST if mean is None else mean
        reasons.append(at_least("minimum_score", value, rules.minimum_score, clicks.reward))
    if against is not None:
        left = allowance_of(rules, run.registry.ledger, run.run_id, against)
        values = _unpacked(_values_file(run))
        propensities = load_propensities(clicks.propensities)
        try:
            found, test = _against(rules, clicks, (values, propensities), left, evaluated.metrics)
            reasons += found
        except DataError as error:  # too few queries, or too little is covered
            reasons.append(Reason("min_covered", False, 0.0, clicks.min_covered, str(error)))
    return verdict_of(
        rules, reasons, test, fitted.n_features, evaluated.drift, left, metric=clicks.reward
    )


def _against(
    rules: GateConfig,
    clicks: ClicksConfig,
    measured: tuple[QueryValues, Propensities],
    left: Allowance | None,
    means: Mapping[str, Mapping[str, float | None]],
) -> tuple[list[Reason], GateTest | None]:
    """Rules about the difference to the champion, and its test if there is one.

    Raises
    ------
    DataError
        If the clicks say too little about the difference.
    """
    name = f"difference of {clicks.reward}"
    found = _value(rules, clicks, measured, rules.confidence)
    n_clicks = int(measured[0].clicks.sum())
    covered = (
        f"{name} to the champion, {found.covered:.0%} of it covered by clicks ({n_clicks:,} on "
        "documents that they place differently)"
    )
    counted = f"{found.lower:+.4f}{_if_nothing_counted(found, means, clicks.reward)}"
    reasons = []
    if rules.minimum_effect > 0:
        reasons.append(at_least("minimum_effect", found.lower, rules.minimum_effect, covered))
    if left is None:
        text = f"{covered}: {counted}, not tested"
        return [*reasons, Reason("false_promotions_per_year", True, found.lower, 0.0, text)], None
    if not left.level:
        return [*reasons, postponed(left, f"{covered}: {counted}")], None
    at_level = _value(rules, clicks, measured, max(1.0 - 2.0 * left.level, 1e-9))
    low = lower_end(measured[0], at_level, left.level)
    text = f"{covered}: {counted}, approximate lower end {low:+.4f}, above 0 at {left.text}"
    reason = Reason("false_promotions_per_year", low > 0, low, 0.0, text)
    return [*reasons, reason], _test(rules, left, found, low)


def _if_nothing_counted(
    found: OffPolicyValue, means: Mapping[str, Mapping[str, float | None]], reward: str
) -> str:
    """The difference of the two values that are reported, in words, where it is another one."""
    ours, theirs = means["challenger"][reward], means["champion"][reward]
    if ours is None or theirs is None or abs(ours - theirs - found.lower) < SHOWN:
        return ""
    return (
        " with documents that no click covers counted against the challenger "
        f"({ours - theirs:+.4f} with these counted as 0, as in the two values)"
    )


def _test(rules: GateConfig, left: Allowance, found: OffPolicyValue, low: float) -> GateTest:
    """The test of "the challenger is worth no more" by the lower end at the level."""
    error = found.standard_error
    return GateTest(
        day=left.next_day.isoformat(),
        kind="interval",
        every=rules.every,
        n_queries=found.n_queries,
        n_effective=found.n_effective,
        difference=found.lower,
        error=error,
        e_value=None,
        p_value=student_p_value(found.lower, error, found.n_effective),
        level=left.level,
        detectable=found.lower - low + error * float(special.ndtri(POWER)),
        better=low > 0,
    )


def _value(
    rules: GateConfig,
    clicks: ClicksConfig,
    measured: tuple[QueryValues, Propensities],
    confidence: float,
) -> OffPolicyValue:
    """The mean of the differences that `evaluate_on_clicks` has kept, with an interval."""
    return off_policy_value(
        *measured,
        f"difference of {clicks.reward}",
        least_covered=clicks.min_covered,
        max_missing=clicks.max_missing,
        **(rules.resampling | {"confidence": confidence}),
    )


def _mean(values: QueryValues) -> float | None:
    """Mean value, with relevance 0 for documents that are not covered; None without queries."""
    total = float(values.traffic.sum())
    return float(values.traffic @ values.lower) / total if total else None


def _values_file(run: Run) -> Place:
    return run.folder / "click-values.npz"


def _packed(values: QueryValues) -> bytes:
    buffer = io.BytesIO()
    np.savez(
        buffer, allow_pickle=False, **{f.name: getattr(values, f.name) for f in fields(values)}
    )
    return buffer.getvalue()


def _unpacked(file: Place) -> QueryValues:
    """The values of a file that `_packed` made; an earlier version may have written fewer arrays.

    Raises
    ------
    DataError
        If arrays are missing.
    """
    with np.load(io.BytesIO(read_bytes(file)), allow_pickle=False) as stored:
        names = [field.name for field in fields(QueryValues)]
        missing = [name for name in names if name not in stored]
        if missing:
            raise DataError(
                f"{file} has no {', '.join(missing)}: an earlier version of dranking wrote it. "
                "Run dranking retrain with --from evaluate, which estimates the values again."
            )
        return QueryValues(**{name: stored[name] for name in names})
