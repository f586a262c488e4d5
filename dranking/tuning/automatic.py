"""The default search of greedy RankRLS: forms of the features, lambda, rescoring and size.

Every model is selected anew on the training queries of each fold, with the forms fitted to these
queries, and measured on the queries held out. Scores of the models that a search compares are
slightly optimistic for the best of them. `held_out_score` repeats the whole search without each of
three further folds, on three folds of the other queries, and measures what it chooses there on
queries that had no part in the choice; this search learns from two thirds of the queries, so that
its score is rather too low.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.forms_dataset import with_forms
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError, UsageError
from dranking.rankrls.gram.moments import block_totals
from dranking.tuning.choice import GridPoint, Preference, ScoredPath, choose, edge_of, points_of
from dranking.tuning.folds import QueryKFold, split_queries
from dranking.tuning.gain import gain_over
from dranking.tuning.grid import Array, mean_and_error, validation_sums
from dranking.tuning.preparation import Preparation
from dranking.tuning.result import HeldOut
from dranking.tuning.scores import SearchPlan, Split
from dranking.tuning.settings import Setting

FORMS = ("raw", "raw,log", "raw,log,quantile", "raw,log,query-minmax,rank", "raw,log,hinge")
"""Sets of forms to try, where the data has the values that the forms need; the plainest first."""

BENT = "hinge"
"""The form with many columns for each feature, which is taken only where it surely gains."""

MOST_HINGES = 50_000_000
"""Most values, documents times columns, of a set with hinges that a user does not name."""

STRENGTHS = tuple(2.0**exponent for exponent in (-10, -7, -4, -1, 2))
"""lambda to try, as shares of the median sum of squares of a column within queries."""

STEP, MOST_STEPS = 2.0**3, 4
"""Factor to the next lambda beyond the best one, and the largest number of such steps."""

FOLDS = QueryKFold(5, n_repeats=2)
"""The folds of the default search."""

N_HELD_OUT, HELD_OUT_SEED = 3, 1_000
"""Number of folds of `held_out_score`, also within its searches, and what is added to the seed."""

SEARCH_SHARE = 0.6
"""Share of a time limit after which the search leaves the rest to `held_out_score`."""

RESCORING = 3.0
"""Time of one rescored selection in times of a selection of five lambdas, about."""


def folds_for(n_queries: int, seed: int = 0, *, is_default: bool) -> QueryKFold:
    """Folds without a wish of the user: fewer than five for fewer queries, twice by default."""
    n_folds = max(2, min(FOLDS.n_folds, n_queries))
    return QueryKFold(n_folds, seed, FOLDS.n_repeats if is_default else 1)


@dataclass
class Clock:
    """The time that work may take, what was tried, what was left out, and what was not taken.

    Attributes
    ----------
    end
        `time.monotonic()` at the end; infinity without a limit.
    tried
        Sets of forms that were tried.
    left_out
        What was not tried, and why.
    not_taken
        Forms that were tried and not taken, and why.
    """

    end: float
    tried: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    not_taken: list[str] = field(default_factory=list)

    def allows(self, seconds: float, what: str) -> bool:
        """Whether there is time for work that takes so long; notes what is left out if not."""
        is_allowed = time.monotonic() + seconds <= self.end
        if not is_allowed:
            self.left_out.append(f"{what}, for lack of time")
        return is_allowed


def default_search(
    plan: SearchPlan,
    train: Dataset,
    forms: Sequence[str] | None,
    clock: Clock,
    preference: Preference,
) -> list[ScoredPath]:
    """Scores of the models of the default search.

    All sets of forms are tried with all lambdas, hinges with three. Hinges are left out from there
    on, unless they gain more than the standard error of their gain, paired by query: there are so
    many of them that the best of them often looks a little better. Lambdas beyond the best one
    follow while they are better. The best forms and lambda are then tried with picks that are
    rescored by the measure.

    Parameters
    ----------
    plan
        The measure, the folds or validation data, and the largest number of features.
    train
        Raw training data.
    forms
        Sets of forms; None means those that the data allows, without hinges where these are more
        than `MOST_HINGES` values.
    clock
        The time; the first set of forms is always tried.
    preference
        How a model is chosen.
    """
    splits = plan.splits(train) or []
    paths: list[ScoredPath] = []
    rate, columns = 0.0, set()
    took: dict[str, float] = {}
    for names in possible_forms(train) if forms is None else forms:
        begun = time.monotonic()
        preparation = Preparation(forms=names)
        prepared = preparation.of(train, plan.executor)
        if prepared.feature_names in columns:  # features of two values have no hinges
            continue
        if forms is None and _are_too_many(prepared, names, clock):
            continue
        if paths and not clock.allows(rate * prepared.n_features, f"forms {names}"):
            continue
        clock.tried.append(names)
        columns.add(prepared.feature_names)
        unit = _square_within(prepared, plan.executor)
        # Hinges take half of the time of all sets of forms, and have the lambdas of the middle.
        strengths = STRENGTHS[1:-1] if BENT in names.split(",") else STRENGTHS
        lambdas = [strength * unit for strength in strengths]
        paths += _with_lambdas(plan, train, splits, preparation, lambdas)
        took[names] = time.monotonic() - begun
        rate = took[names] / prepared.n_features
    paths = _without_vain_hinges(paths, plan, train, splits, clock, preference)
    for _ in range(MOST_STEPS):
        best = choose(paths, *preference._replace(rule="best"))
        edge = edge_of(best, points_of(paths))
        if edge is None or not clock.allows(took[best["forms"]], "lambdas beyond the best"):
            break
        further = best["regularization"] * (STEP if edge == "largest" else 1.0 / STEP)
        paths += _with_lambdas(plan, train, splits, Preparation.at(best), [further])
    best = choose(paths, *preference._replace(rule="best"))
    rescored = Setting(regularization=best["regularization"], rescore=plan.criterion.measure)
    seconds = RESCORING * took[best["forms"]]
    if clock.allows(seconds, f"picks rescored by {plan.criterion.measure}"):
        paths += plan.scores(train, splits, Preparation.at(best), [rescored])
    return paths


def _are_too_many(prepared: Dataset, names: str, clock: Clock) -> bool:
    """Whether a set of forms has hinges of too many values for a search that nobody asked for."""
    n_values = prepared.n_documents * prepared.n_features
    if BENT not in names.split(",") or n_values <= MOST_HINGES:
        return False
    clock.left_out.append(
        f"forms {names}, whose {prepared.n_features} columns have {n_values:.1g} values, more than "
        f"{MOST_HINGES:.0g}; name these forms (--forms) to try them"
    )
    return True


def _without_vain_hinges(
    paths: list[ScoredPath],
    plan: SearchPlan,
    train: Dataset,
    splits: Sequence[Split],
    clock: Clock,
    preference: Preference,
) -> list[ScoredPath]:
    """The paths without those of hinges, if hinges gain, but not beyond the paired error."""
    plain = [path for path in paths if BENT not in path.points[0].get("forms", "").split(",")]
    if len(plain) in (0, len(paths)):
        return paths
    best, other = (choose(each, *preference._replace(rule="best")) for each in (paths, plain))
    if best is other:
        return paths
    gain = gain_over(best, other, plan, train, splits)
    if gain.mean > gain.error:
        return paths
    clock.not_taken.append(
        f"forms {best.get('forms')}, which gain {gain.mean:.4f} +- {gain.error:.4f}"
    )
    return plain


def held_out_score(
    plan: SearchPlan,
    train: Dataset,
    clock: Clock,
    preference: Preference,
) -> HeldOut | None:
    """The score of the whole search on queries that had no part in it; None if there is none.

    Without each fold of queries in turn, the search of the forms that were tried is repeated on
    three folds of the others, and what it chooses is measured on the queries of the fold. A fold
    whose search is cut short by the clock does not count. The clock notes why folds are missing.
    """
    if not isinstance(plan.validation, QueryKFold):
        return None
    seed = plan.validation.seed
    outer = QueryKFold(N_HELD_OUT, seed + HELD_OUT_SEED)
    # The rule is applied to the paths; its own least number of queries is that of the main search.
    inner = replace(plan, validation=QueryKFold(N_HELD_OUT, seed), rule="best")
    sums: list[Array] = []
    took, own = 0.0, Clock(clock.end)
    try:
        for rest, held_out in split_queries(train, outer, plan.executor):
            if not own.allows(took, "searches without held-out queries"):
                break
            begun = time.monotonic()
            paths = default_search(inner, rest, clock.tried, own, preference)
            if own.left_out:
                break
            point = choose(paths, *preference)
            sums.append(_sums_of(point, plan, rest, held_out))
            took = time.monotonic() - begun
    except (DataError, UsageError) as error:
        clock.left_out.append(
            f"a score on held-out queries, since the queries are too few: {error}"
        )
        return None
    if own.left_out:
        clock.left_out.append(
            f"a score on held-out queries of {N_HELD_OUT - len(sums)} of {N_HELD_OUT} folds, for "
            "lack of time"
        )
    total = np.sum(sums, axis=0) if sums else np.zeros((1, 1))
    if not total[0, 0]:
        return None
    [score], [standard_error] = mean_and_error(total)
    return HeldOut(float(score), float(standard_error), int(total[0, 0]), len(sums))


def _sums_of(point: GridPoint, plan: SearchPlan, train: Dataset, judged: Dataset) -> Array:
    """Sums over judged queries, as `validation_sums`, of the model of a point."""
    prepared = Preparation.at(point).of(train, plan.executor)
    [path] = plan.family.paths(prepared, [point], point["n_features"], plan.executor)
    only = path._replace(setting=point, weights=path.weights[-1:])
    return validation_sums([only], prepared, judged, plan.criterion, plan.executor)


def possible_forms(train: Dataset) -> tuple[str, ...]:
    """The sets of forms that a data set allows; its features as they are, where it is scaled."""
    if train.transforms:
        return FORMS[:1]
    one_query = train.select_queries(np.arange(train.n_queries) == 0)
    return tuple(names for names in FORMS if _are_possible(one_query, names))


def _are_possible(dataset: Dataset, names: str) -> bool:
    """Whether forms can be made of data that may be sparse, or have filled values."""
    try:
        with_forms(dataset, names.split(","))
    except DataError:
        return False
    return True


def _with_lambdas(
    plan: SearchPlan,
    train: Dataset,
    splits: Sequence[Split],
    preparation: Preparation,
    lambdas: Sequence[float],
) -> list[ScoredPath]:
    settings = [Setting(regularization=value) for value in lambdas]
    return plan.scores(train, splits, preparation, settings)


def _square_within(dataset: Dataset, executor: Executor) -> float:
    """Median sum of squares of a column within queries, as a power of two; 1 without any."""
    diagonal = reduce(add, map_blocks(_diagonal, dataset, executor, name="moments"))
    varying = diagonal[diagonal > 0.0]
    return float(2.0 ** round(math.log2(np.median(varying)))) if len(varying) else 1.0


def _diagonal(block: QueryBlock) -> Array:
    diagonal, _, _ = block_totals(block)
    return diagonal
