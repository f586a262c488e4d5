"""The default search of greedy RankRLS: forms of features, products, lambda, rescoring and size.

Every model is selected anew on the training queries of each fold, with the forms fitted to these
queries, and measured on the queries held out. Scores of the models that a search compares are
slightly optimistic for the best of them. `held_out_score` repeats the whole search without each of
three further folds, on three folds of the other queries, and measures what it chooses there on
queries that had no part in the choice; this search learns from two thirds of the queries, so that
its score is rather too low.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from dranking.data.dataset import Dataset
from dranking.data.forms_dataset import KNOT_SHARES, PRODUCT, with_forms
from dranking.errors import DataError, UsageError
from dranking.rankrls.greedy.candidates import (
    N_MULTIPLIED,
    N_PARTNERS,
    STRENGTHS,
    column_totals,
    median_square,
)
from dranking.tuning.choice import GridPoint, Preference, ScoredPath, choose, edge_of, points_of
from dranking.tuning.folds import QueryKFold, split_queries
from dranking.tuning.gain import gain_over
from dranking.tuning.grid import Array, mean_and_error, validation_sums
from dranking.tuning.preparation import Preparation
from dranking.tuning.result import HeldOut
from dranking.tuning.scores import Part, SearchPlan, Split
from dranking.tuning.settings import Setting

FORMS = ("raw", "raw,log", "raw,log,quantile", "raw,log,query-minmax,rank", "raw,log,hinge")
"""Sets of forms to try, where the data has the values that the forms need; the plainest first."""

HINGE: Final = "hinge"
"""A form with many columns for each feature, which is taken only where it surely gains."""

KNOTS = 2 * len(KNOT_SHARES)
"""Largest number of hinges of a feature."""

MOST_VALUES = 50_000_000
"""Most values, documents times columns, of a set with hinges or products that no user names."""

STEP, MOST_STEPS = 2.0**3, 4
"""Factor to the next lambda beyond the best one, and the largest number of such steps."""

FOLDS = QueryKFold(5, n_repeats=2)
"""The folds of the default search."""

N_HELD_OUT, HELD_OUT_SEED = 3, 1_000
"""Number of folds of `held_out_score`, also within its searches, and what is added to the seed."""

HELD_OUT_STAGE = "tune without held-out queries"
"""Name of the searches within `held_out_score` in reports of progress."""

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
    is_over
        Whether something was left out for lack of time.
    """

    end: float
    tried: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    not_taken: list[str] = field(default_factory=list)
    is_over: bool = False

    def allows(self, seconds: float, what: str) -> bool:
        """Whether there is time for work that takes so long; notes what is left out if not."""
        is_allowed = time.monotonic() + seconds <= self.end
        if not is_allowed:
            self.is_over = True
            self.left_out.append(f"{what}, for lack of time")
        return is_allowed


def default_search(
    plan: SearchPlan,
    train: Dataset,
    forms: Sequence[str] | None,
    clock: Clock,
    preference: Preference,
    *,
    is_bounded: bool,
) -> list[ScoredPath]:
    """Scores of the models of the default search.

    All sets of forms are tried with all lambdas, hinges with three. Hinges are left out from there
    on, unless they gain more than the standard error of their gain, paired by query: there are so
    many of them that the best of them often looks a little better. The best forms are then tried
    with products, which are taken or left out in the same way. Lambdas beyond the best one follow
    while they are better. The best forms and lambda are then tried with picks that are rescored by
    the measure.

    Parameters
    ----------
    plan
        The measure, the folds or validation data, and the largest number of features.
    train
        Raw training data.
    forms
        Sets of forms, and "product" for products of the best of them; None means those that the
        data allows.
    clock
        The time; the first set of forms is always tried.
    preference
        How a model is chosen.
    is_bounded
        Whether hinges and products of more than `MOST_VALUES` values are left out.
    """
    part = Part(train, plan.executor)
    search = _Search(plan, part, plan.splits(part) or [], clock, preference, is_bounded)
    sets = (*possible_forms(train), PRODUCT) if forms is None else forms
    for names in sets:
        if names != PRODUCT:
            search.try_forms(names)
    search.leave_out_vain(HINGE)
    if PRODUCT in sets:
        search.try_products()
    search.leave_out_vain(PRODUCT)
    search.try_further_lambdas()
    search.try_rescored()
    return search.paths


@dataclass
class _Search:
    """The default search, as far as it is.

    Attributes
    ----------
    plan, part, splits, clock, preference
        What is searched, the training data and its folds, the time, and how a model is chosen.
    is_bounded
        Whether hinges and products of more than `MOST_VALUES` values are left out.
    paths
        The scored models.
    columns
        Names of the columns of the sets of forms that were tried.
    took
        Seconds that each set of forms took.
    rate
        Seconds a column of the last set of forms.
    """

    plan: SearchPlan
    part: Part
    splits: Sequence[Split]
    clock: Clock
    preference: Preference
    is_bounded: bool
    paths: list[ScoredPath] = field(default_factory=list)
    columns: set[tuple[str, ...]] = field(default_factory=set)
    took: dict[str, float] = field(default_factory=dict)
    rate: float = 0.0

    def best(self) -> GridPoint:
        """The best model so far."""
        return choose(self.paths, *self.preference._replace(rule="best"))

    def try_forms(self, names: str) -> None:
        """Try a set of forms with its lambdas, if it has other columns than the sets before."""
        raw = self.part.queries.n_features
        most = raw * sum(KNOTS if name == HINGE else 1 for name in names.split(","))
        if HINGE in names.split(",") and self._are_too_many(f"forms {names}", most):
            return
        begun = time.monotonic()
        n_columns = self.part.prepared(Preparation(forms=names)).n_features
        if self.paths and not self.clock.allows(self.rate * n_columns, f"forms {names}"):
            return
        if self._score(names, begun):
            self.clock.tried.append(names)

    def try_products(self) -> None:
        """Try products of the columns of the best forms, beside these columns."""
        names = self.best()["forms"]
        if PRODUCT in names.split(",") or self.part.queries.transforms:
            return
        base, raw = self.part.prepared(Preparation(forms=names)), self.part.queries.n_features
        most = base.n_features + N_MULTIPLIED * min(raw, N_PARTNERS)
        if self._are_too_many("products", most):
            return
        # The columns to multiply are selected anew in each fold.
        seconds = self.rate * most + self.took[names]
        if not self.clock.allows(seconds, "products"):
            return
        if self._score(f"{names},{PRODUCT}", time.monotonic()):
            self.clock.tried.append(PRODUCT)

    def _are_too_many(self, what: str, n_columns: int) -> bool:
        """Whether there are too many values for a search that nobody asked for."""
        n_values = self.part.queries.n_documents * n_columns
        if not self.is_bounded or n_values <= MOST_VALUES:
            return False
        named = "raw,log,product" if what == "products" else what.removeprefix("forms ")
        self.clock.left_out.append(
            f"{what}, with up to {n_columns} columns and {n_values:.1g} values, more than "
            f"{MOST_VALUES:.0g}; name the forms (--forms {named}) to try them"
        )
        return True

    def _score(self, names: str, begun: float) -> bool:
        """Whether a set of forms has columns that no set before had; scores its lambdas then."""
        preparation = Preparation(forms=names)
        prepared = self.part.prepared(preparation)
        if prepared.feature_names in self.columns:  # features of two values have no hinges
            return False
        self.columns.add(prepared.feature_names)
        # Products of large values are so large that in their units lambda is too large for others.
        kinds = [form for form in names.split(",") if form != PRODUCT]
        base = self.part.prepared(Preparation(forms=",".join(kinds)))
        unit = median_square(column_totals(base, self.plan.executor)[0])
        # Hinges take most of the time, and have the lambdas of the middle.
        strengths = STRENGTHS[1:-1] if HINGE in names.split(",") else STRENGTHS
        self._score_lambdas(preparation, [strength * unit for strength in strengths])
        self.took[names] = time.monotonic() - begun
        self.rate = self.took[names] / prepared.n_features
        return True

    def _score_lambdas(self, preparation: Preparation, lambdas: Sequence[float]) -> None:
        settings = [Setting(regularization=value) for value in lambdas]
        self.paths += self.plan.scores(self.part, self.splits, preparation, settings)

    def leave_out_vain(self, form: str) -> None:
        """Leave a form out if it gains, but not more than the paired error of the gain."""
        plain = [p for p in self.paths if form not in p.points[0].get("forms", "").split(",")]
        if len(plain) in (0, len(self.paths)):
            return
        best, other = self.best(), choose(plain, *self.preference._replace(rule="best"))
        if best is other:
            return
        gain = gain_over(best, other, self.paths, self.plan, self.splits)
        if gain.mean > gain.error:
            return
        self.clock.not_taken.append(
            f"forms {best['forms']}, which gain {gain.mean:.4f} +- {gain.error:.4f}"
        )
        self.paths = plain

    def try_further_lambdas(self) -> None:
        """Try lambdas beyond the best one, while they are better."""
        for _ in range(MOST_STEPS):
            best = self.best()
            edge = edge_of(best, points_of(self.paths))
            seconds = self.took[best["forms"]]
            if edge is None or not self.clock.allows(seconds, "lambdas beyond the best"):
                break
            further = best["regularization"] * (STEP if edge == "largest" else 1.0 / STEP)
            self._score_lambdas(Preparation.at(best), [further])

    def try_rescored(self) -> None:
        """Try the best forms and lambda with picks that are rescored by the measure."""
        best, measure = self.best(), self.plan.criterion.measure
        seconds = RESCORING * self.took[best["forms"]]
        if self.clock.allows(seconds, f"picks rescored by {measure}"):
            rescored = Setting(regularization=best["regularization"], rescore=measure)
            preparation = Preparation.at(best)
            self.paths += self.plan.scores(self.part, self.splits, preparation, [rescored])


def held_out_score(
    plan: SearchPlan,
    train: Dataset,
    clock: Clock,
    preference: Preference,
    *,
    is_bounded: bool,
) -> HeldOut | None:
    """The score of the whole search on queries that had no part in it; None if there is none.

    Without each fold of queries in turn, the search of the forms that were tried is repeated on
    three folds of the others, and what it chooses is measured on the queries of the fold. A fold
    whose search is cut short by the clock does not count. The clock notes why folds are missing.
    Bounded searches leave out products of too many values, as the search of all queries would.
    """
    if not isinstance(plan.validation, QueryKFold):
        return None
    seed = plan.validation.seed
    outer = QueryKFold(N_HELD_OUT, seed + HELD_OUT_SEED)
    # The rule is applied to the paths; its own least number of queries is that of the main search.
    folds = QueryKFold(N_HELD_OUT, seed)
    inner = replace(plan, validation=folds, rule="best", stage=HELD_OUT_STAGE)
    sums: list[Array] = []
    took, own = 0.0, Clock(clock.end)
    try:
        for rest, held_out in split_queries(train, outer, plan.executor):
            if not own.allows(took, "searches without held-out queries"):
                break
            begun = time.monotonic()
            paths = default_search(inner, rest, clock.tried, own, preference, is_bounded=is_bounded)
            if own.is_over:
                break
            point = choose(paths, *preference)
            sums.append(_sums_of(point, plan, rest, held_out))
            took = time.monotonic() - begun
    except (DataError, UsageError) as error:
        clock.left_out.append(
            f"a score on held-out queries, since the search fails without some of them: {error}"
        )
        return None
    if own.is_over:
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
