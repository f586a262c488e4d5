"""The rules of a greedy selection, and the paths that it finds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf, isfinite
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dranking.data.column_forms import forms_of
from dranking.data.dataset import Dataset
from dranking.data.transforms import Hinge
from dranking.engine.tiles import Traffic
from dranking.errors import STATED_ACCURACY, UsageError
from dranking.models.linear.checks import check_whole
from dranking.rankrls.greedy.costs import FeatureCosts
from dranking.rankrls.greedy.rescoring import Rescoring
from dranking.rankrls.kernels.lqo.rounding import EQUAL_ERRORS

Array = NDArray[np.float64]

Fitting: TypeAlias = Literal["pre", "back"]
SearchName: TypeAlias = Literal["forward", "floating", "backward"]


@dataclass(frozen=True)
class SelectionRules:
    """The rules of a search: its kind, the features that it may pick, and its end.

    Attributes
    ----------
    n_features, start, forbidden, patience, candidates, random_state, prefetch, fitting, search
        As in `GreedyRankRLS`; `start` and `forbidden` are indices.
    costs
        Pick by gain per cost, within a budget; None means by gain alone. `n_features` is then the
        largest number of features.
    rescoring
        Pick among the best candidates by this measure; None means by the squared error.
    forms_per_feature
        Largest number of forms of one feature that are selected together, beside any hinges
        and products.
    features_of
        (n_columns,) for data whose columns are forms of features, the number of the feature of each
        column, and a number of its own for each hinge and product; None where each column is a
        feature.
        `for_data` sets the numbers.
    """

    n_features: int
    start: Sequence[int] = ()
    forbidden: Sequence[int] = ()
    patience: int | None = None
    candidates: int | None = None
    random_state: int = 0
    prefetch: int | None = None
    costs: FeatureCosts | None = None
    fitting: Fitting = "pre"
    rescoring: Rescoring | None = None
    search: SearchName = "forward"
    forms_per_feature: int = 1
    features_of: NDArray[np.intp] | None = None

    def for_data(self, dataset: Dataset) -> SelectionRules:
        """The rules for a data set, whose columns may be forms of features."""
        forms = forms_of(dataset.transforms)
        if forms is None:
            return self
        # Several hinges are one function of a feature, so that each of them counts by itself; so
        # does each product.
        keys = [
            (forms.sources[of[0]], None)
            if len(of) == 1 and not isinstance(forms.forms[of[0]], Hinge)
            else column
            for column, of in enumerate(forms.columns)
        ]
        numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        features_of = np.array([numbers[key] for key in keys], dtype=np.intp)
        return replace(self, features_of=features_of)

    def most_selected(self, dataset: Dataset) -> int:
        """Largest number of columns of a data set that may be selected together."""
        return self.for_data(dataset)._most_selected(self.allowed(dataset.n_features))

    def with_free_feature(
        self, selected: Sequence[int], candidates: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """The candidates whose feature may be selected in one more form."""
        if self.features_of is None:
            return candidates
        features = self.features_of[list(selected)]
        counts = np.bincount(features, minlength=int(self.features_of.max()) + 1)
        return candidates[counts[self.features_of[candidates]] < self.forms_per_feature]

    def is_free(self, feature: int, selected: Sequence[int]) -> bool:
        """Whether the feature behind a column may be selected in one more form."""
        if self.features_of is None:
            return True
        taken = self.features_of[list(selected)] == self.features_of[feature]
        return int(np.count_nonzero(taken)) < self.forms_per_feature

    def check(self, dataset: Dataset) -> None:
        """Raise UsageError unless the rules are possible and the data has the features named."""
        self._check_numbers()
        self._check_strategy()
        if self.rescoring is not None:
            dataset.check_documents()
        n = dataset.n_features
        for feature in chain(self.start, self.forbidden):
            check_whole("a feature of start or forbidden", feature)
            if not 0 <= feature < n:
                raise UsageError(
                    f"feature {feature} is not there; the data has features 0 to {n - 1}."
                )
        if len(set(self.start)) < len(self.start) or set(self.start) & set(self.forbidden):
            raise UsageError("start names a feature twice, or a forbidden feature.")
        allowed = self._most_selected(self.allowed(n))
        if not allowed:
            raise UsageError(f"all {n} features are forbidden; leave one at least to select from.")
        if self._most_selected(self.start) < len(self.start):
            raise UsageError(
                f"start has more than {self.forms_per_feature} forms of a feature; raise "
                "forms_per_feature."
            )
        if not max(1, len(self.start)) <= self.n_features <= allowed:
            raise UsageError(
                f"n_features is {self.n_features}; the data has {n} features, so choose "
                f"{max(1, len(self.start))} to {allowed}."
            )
        if self.costs is not None:
            self.costs.check_budget(self.start, self.allowed(n))

    def _most_selected(self, columns: Sequence[int] | NDArray[np.intp]) -> int:
        """Largest number of some columns that may be selected together."""
        if self.features_of is None:
            return len(columns)
        counts = np.bincount(self.features_of[np.asarray(columns, dtype=np.intp)])
        return int(np.minimum(counts, self.forms_per_feature).sum())

    def _check_numbers(self) -> None:
        check_whole("n_features", self.n_features)
        least = {
            "prefetch": 1,
            "patience": 1,
            "candidates": 1,
            "random_state": 0,
            "forms_per_feature": 1,
        }
        for name, limit in least.items():
            number = getattr(self, name)
            if number is None and name != "random_state":
                continue
            check_whole(name, number)
            if number < limit:
                raise UsageError(f"{name} is {number}; it must be at least {limit}.")

    def _check_strategy(self) -> None:
        for name, kind in (("fitting", Fitting), ("search", SearchName)):
            choices = get_args(kind)
            if getattr(self, name) not in choices:
                raise UsageError(
                    f"{name} is {getattr(self, name)!r}; choose one of {', '.join(choices)}."
                )
        if self.search != "forward" and (self.costs or self.rescoring):
            what = "feature_costs" if self.costs else "rescore"
            raise UsageError(f"{what} needs search='forward', but search is {self.search!r}.")
        if self.search == "backward" and (self.candidates is not None or self.fitting == "back"):
            what = "fitting='back'" if self.fitting == "back" else "candidates"
            raise UsageError(f"{what} applies to features to add; search='backward' adds none.")
        if self.search == "backward" and self.features_of is not None:
            if self._most_selected(np.arange(len(self.features_of))) < len(self.features_of):
                raise UsageError(
                    "search='backward' begins with all forms of every feature: choose another "
                    "search, or forms_per_feature as large as the number of forms."
                )
        if self.rescoring is not None and self.costs is not None:
            raise UsageError("rescore picks by a measure, feature_costs by gain per cost; use one.")

    @property
    def refits(self) -> bool:
        """Whether scores come from refits on the Gram rows of the selected features alone."""
        return self.fitting == "back" or self.search == "backward"

    @property
    def picks_by_error_alone(self) -> bool:
        """Whether the pick is always the candidate with the smallest error, of all candidates."""
        others = (self.costs, self.rescoring, self.candidates)
        return not self.refits and all(each is None for each in others)

    @property
    def whole_queries(self) -> bool:
        """Whether tasks need all features of a query together."""
        return self.refits or self.search == "floating"

    def allowed(self, n_features: int) -> NDArray[np.intp]:
        """The features that may be picked, ascending."""
        return np.delete(np.arange(n_features), np.array(list(self.forbidden), dtype=np.intp))

    def drawn(self, features: NDArray[np.intp], round_: int) -> NDArray[np.intp]:
        """The candidates of a round (counted from 0), ascending, drawn from `features`."""
        if self.candidates is None or self.candidates >= len(features):
            return features
        rng = np.random.default_rng((self.random_state, round_))
        return np.sort(rng.choice(features, self.candidates, replace=False))


class Doubt(NamedTuple):
    """The doubt about the pick of a round: another candidate may be better, by rounding.

    Attributes
    ----------
    share
        Largest possible advantage, as a share of the pick's error; 0 if there is no doubt.
    feature
        The other candidate, or -1.
    loss
        `Scores.losses` of the pick; 0 if unknown, since the pick had no rivals.
    was_checked
        Whether the round read the documents without each query.
    """

    share: float = 0.0
    feature: int = -1
    loss: float = 0.0
    was_checked: bool = False


@dataclass
class SelectionPath:
    """The features selected for one lambda, and their weights, after each round.

    Attributes
    ----------
    regularization
        lambda.
    initial_error
        Leave-query-out error with no feature: the squared norm of the centred labels.
    kept
        0-based indices of the features selected after each round, in order of selection.
    lqo_error
        Leave-query-out squared error after each round, summed over queries.
    weights
        One array for each round: the weights of the features in `kept`, in their order. The end
        of the search finds them.
    doubts
        Whether rounding leaves it open that another feature was the best of each round.
    measured
        The `measure` of `select_paths`, summed over all blocks; None without a measure.
    relative_rounding
        Estimated relative error by rounding of `lqo_error` and of the predictions of `weights`.
    uncertain
        The features behind an error above 1e-6, the most uncertain first.
    """

    regularization: float
    initial_error: float = 0.0
    kept: list[list[int]] = field(default_factory=list)
    lqo_error: list[float] = field(default_factory=list)
    weights: list[Array] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    measured: Array | None = None
    relative_rounding: float = 0.0
    uncertain: list[int] = field(default_factory=list)

    def keep(self, selected: Sequence[int], doubt: Doubt) -> None:
        """Note the features selected after a round."""
        self.kept.append(list(selected))
        self.doubts.append(doubt)
        self.weights.append(np.empty(0))

    def note_error(self, error: float) -> None:
        """Note the error after the last round, unless it is known."""
        if len(self.lqo_error) < len(self.kept):
            self.lqo_error.append(error)

    @property
    def selected(self) -> list[int]:
        """The features after the last round, in order of selection."""
        return self.kept[-1] if self.kept else []

    @property
    def without_gain(self) -> list[int]:
        """Rounds (0-based) that added a feature and did not lower the error."""
        errors, sizes = [self.initial_error, *self.lqo_error], [0, *map(len, self.kept)]
        return [
            r
            for r in range(len(self.kept))
            if sizes[r + 1] > sizes[r] and not errors[r + 1] < errors[r]
        ]

    @property
    def unproven(self) -> list[int]:
        """Rounds (0-based) in which another feature may be better by more than 1e-6."""
        return [r for r, doubt in enumerate(self.doubts) if doubt.share > STATED_ACCURACY]

    @property
    def best_round(self) -> int:
        """The round (0-based) after which the error is smallest, up to rounding.

        Ties go to the fewest features, then to the earliest round.
        """
        return self.best_round_of({len(kept) for kept in self.kept})

    def best_round_of(self, sizes: Collection[int]) -> int:
        """Like `best_round`, restricted to rounds with one of these numbers of features."""
        rounds = [r for r, kept in enumerate(self.kept) if len(kept) in sizes]
        # Errors that overflowed are no smaller than others.
        errors = {r: self.lqo_error[r] if isfinite(self.lqo_error[r]) else inf for r in rounds}
        limit = min(errors.values()) + EQUAL_ERRORS * abs(min(errors.values()))
        best = [r for r in rounds if errors[r] <= limit]
        return min(best, key=lambda r: len(self.kept[r]))

    @property
    def best_size(self) -> int:
        """The smallest number of features, at least 1, with the smallest error."""
        return len(self.kept[self.best_round])

    def coef(self, n_features: int) -> Array:
        """(n_features,) weights after the last round; zero for features not selected."""
        coef = np.zeros(n_features)
        coef[self.selected] = self.weights[-1]
        return coef

    def first(self, n_rounds: int) -> SelectionPath:
        """The first rounds of the path; in a forward search, the first features."""
        return SelectionPath(
            self.regularization,
            self.initial_error,
            self.kept[:n_rounds],
            self.lqo_error[:n_rounds],
            self.weights[:n_rounds],
            self.doubts[:n_rounds],
            relative_rounding=self.relative_rounding,
            uncertain=list(self.uncertain),
        )


@dataclass(frozen=True)
class Selection:
    """The paths that a selection found, and the costs of the selection.

    Attributes
    ----------
    paths
        One path for each lambda.
    n_passes
        Passes over the data.
    n_feature_blocks
        Number of parts into which the features were split.
    bytes_read
        Bytes read from storage, decoded.
    traffic
        Messages between tiles and driver, by purpose.
    """

    paths: list[SelectionPath]
    n_passes: int
    n_feature_blocks: int
    bytes_read: int
    traffic: dict[str, Traffic]
