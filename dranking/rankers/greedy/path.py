"""What a greedy selection is asked, and the paths it finds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.traffic import Traffic
from dranking.errors import UsageError
from dranking.rankers.greedy.costs import FeatureCosts
from dranking.rankers.greedy.rescoring import Rescoring
from dranking.rankers.linear.estimator import check_whole

Array = NDArray[np.float64]

Fitting: TypeAlias = Literal["pre", "back"]
SearchName: TypeAlias = Literal["forward", "floating", "backward"]


@dataclass(frozen=True)
class SelectionRules:
    """How features are searched, which there may be, and when the search ends.

    Attributes
    ----------
    n_features
        Features to select.
    start
        Features that every path begins with, in this order.
    forbidden
        Features that are never picked.
    patience
        End a path when the last so many features made no new smallest error, without these
        rounds; None means never.
    candidates
        Score so many features a round, drawn anew each time; None means all of them.
    seed
        Of the draws.
    prefetch
        Gram rows fetched in one pass: those of the picks that are foretold, then of the best
        candidates. None means as many as make a pick cheapest, by what the passes so far took; of
        dense data that stays in memory, whose picks a sample foretells, 32.
    costs
        Pick by gain per cost, within a budget; None means by gain alone. `n_features` is then the
        most there can be.
    fitting
        How a candidate is scored: "pre" fits all weights with it, "back" its own alone, those of
        the features selected staying as they are (all are fitted again once it is picked).
    rescoring
        Pick by this among the best candidates; None means by the squared error.
    search
        "forward" adds features, "floating" may drop some again, "backward" begins with all that
        are not forbidden and drops them.
    """

    n_features: int
    start: Sequence[int] = ()
    forbidden: Sequence[int] = ()
    patience: int | None = None
    candidates: int | None = None
    seed: int = 0
    prefetch: int | None = None
    costs: FeatureCosts | None = None
    fitting: Fitting = "pre"
    rescoring: Rescoring | None = None
    search: SearchName = "forward"

    def check(self, dataset: Dataset) -> None:
        """Raise UsageError unless the data has what is asked."""
        self._check_numbers()
        self._check_strategy()
        if self.rescoring is not None:
            dataset.check_documents()
        n = dataset.n_features
        for feature in chain(self.start, self.forbidden):
            check_whole("a feature of start or forbidden", feature)
            if not 0 <= feature < n:
                raise UsageError(f"feature {feature} is not there; the data has 0 to {n - 1}.")
        if len(set(self.start)) < len(self.start) or set(self.start) & set(self.forbidden):
            raise UsageError("start names a feature twice, or one that is forbidden.")
        allowed = n - len(set(self.forbidden))
        if not max(1, len(self.start)) <= self.n_features <= allowed:
            raise UsageError(
                f"n_features is {self.n_features}; the data has {n} features, so choose "
                f"{max(1, len(self.start))} to {allowed}."
            )
        if self.costs is not None:
            self.costs.check_budget(self.start, self.allowed(n))

    def _check_numbers(self) -> None:
        least = {"n_features": None, "prefetch": 1, "patience": 1, "candidates": 1, "seed": 0}
        for name, limit in least.items():
            number = getattr(self, name)
            if number is None and name in ("patience", "candidates", "prefetch"):
                continue
            check_whole(name, number)
            if limit is not None and number < limit:
                raise UsageError(f"{name} is {number}; it must be at least {limit}.")

    def _check_strategy(self) -> None:
        for name, kind in (("fitting", Fitting), ("search", SearchName)):
            choices = get_args(kind)
            if getattr(self, name) not in choices:
                raise UsageError(
                    f"{name} is {getattr(self, name)!r}; choose one of {', '.join(choices)}."
                )
        if self.search != "forward" and (self.costs or self.rescoring):
            what = "feature_costs go" if self.costs else "rescore goes"
            raise UsageError(f"{what} with search='forward' alone; it is {self.search!r}.")
        if self.search == "backward" and (self.candidates is not None or self.fitting == "back"):
            what = "fitting='back'" if self.fitting == "back" else "candidates"
            raise UsageError(f"{what} is of features to add; search='backward' adds none.")
        if self.rescoring is not None and self.costs is not None:
            raise UsageError("rescore picks by a measure, feature_costs by gain per cost; use one.")

    @property
    def of_kept(self) -> bool:
        """Whether candidates are scored by the Gram rows of the features kept alone."""
        return self.fitting == "back" or self.search == "backward"

    @property
    def picks_otherwise(self) -> bool:
        """Whether it is more than the error of all candidates that decides which one is picked."""
        others = (self.costs, self.rescoring, self.candidates)
        return self.of_kept or any(each is not None for each in others)

    @property
    def of_whole_queries(self) -> bool:
        """Whether all features of a query are needed together."""
        return self.of_kept or self.search == "floating"

    def allowed(self, n_features: int) -> NDArray[np.intp]:
        """The features that may be picked, ascending."""
        return np.delete(np.arange(n_features), np.array(list(self.forbidden), dtype=np.intp))

    def drawn(self, features: NDArray[np.intp], round_: int) -> NDArray[np.intp]:
        """The candidates of a round (from 0), ascending, among the features that are left."""
        if self.candidates is None or self.candidates >= len(features):
            return features
        rng = np.random.default_rng((self.seed, round_))
        return np.sort(rng.choice(features, self.candidates, replace=False))


@dataclass
class SelectionPath:
    """The features that a search keeps for one lambda, and the model, after each round.

    Attributes
    ----------
    regularization
        lambda.
    initial_error
        Leave-query-out error with no feature: the labels' own centred norm.
    kept
        0-based indices of the features kept after each round, in order of selection.
    lqo_error
        Leave-query-out squared error after each round, summed over queries.
    weights
        One array per round: the weights of the features kept, in their order.
    held_out
        What the `measure` of `select_paths` gave, summed over all blocks; None without one.
    """

    regularization: float
    initial_error: float = 0.0
    kept: list[list[int]] = field(default_factory=list)
    lqo_error: list[float] = field(default_factory=list)
    weights: list[Array] = field(default_factory=list)
    held_out: Array | None = None

    @property
    def selected(self) -> list[int]:
        """The features kept in the end, in order of selection."""
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
    def best_round(self) -> int:
        """The round (0-based) after which the error is smallest; ties to the fewest features."""
        return self.best_round_of({len(kept) for kept in self.kept})

    def best_round_of(self, sizes: Collection[int]) -> int:
        """The same among the rounds after which there are as many features as one of `sizes`."""
        rounds = [r for r, kept in enumerate(self.kept) if len(kept) in sizes]
        return min(rounds, key=lambda r: (self.lqo_error[r], len(self.kept[r])))

    @property
    def best_size(self) -> int:
        """The smallest number of features, at least 1, with the smallest error."""
        return len(self.kept[self.best_round])

    def first(self, n_rounds: int) -> SelectionPath:
        """The path up to a round; of a forward search, that is up to so many features."""
        return SelectionPath(
            self.regularization,
            self.initial_error,
            self.kept[:n_rounds],
            self.lqo_error[:n_rounds],
            self.weights[:n_rounds],
        )


@dataclass(frozen=True)
class Selection:
    """What a selection found.

    Attributes
    ----------
    paths
        One for each lambda.
    n_passes
        Passes over the data.
    n_feature_blocks
        Into how many parts the features were split.
    bytes_read
        From storage, decoded.
    traffic
        What tiles and the driver sent each other, by its purpose.
    """

    paths: list[SelectionPath]
    n_passes: int
    n_feature_blocks: int
    bytes_read: int
    traffic: dict[str, Traffic]
