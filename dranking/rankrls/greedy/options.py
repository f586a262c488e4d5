"""Options of greedy RankRLS: search, second scores, costs, forms of features, and passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from dranking.data.forms_dataset import FormName
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention
from dranking.models.linear.options import Options
from dranking.rankrls.greedy.costs import CostValues, GroupLabels
from dranking.rankrls.greedy.path import Fitting, SearchName


@dataclass(repr=False)
class Search(Options):
    """The rules by which features are searched, and by which the search ends.

    Parameters
    ----------
    kind
        "forward" adds a feature in each round. "floating" (SFFS) also drops, after each round,
        features without which the error is smaller than any error seen with so few features.
        "backward" begins with all features that are not forbidden and drops, in each round, the
        feature without which the error is smallest, until `n_features` are left; with t features
        left, a round takes O(t^3) for each query, and t Gram rows. Features of `start` are never
        dropped. `Costs` and `Rescore` need a forward search; `candidates` and ``fitting="back"``
        need a forward or floating search.
    fitting
        The score of a candidate. "pre" fits all weights with the candidate, which is exact; "back"
        fits the weight of the candidate alone, while the weights of the selected features stay. All
        weights are fitted again once the candidate is picked (the paper's section 5).
    patience
        End when this many features in a row brought no new smallest error, and drop the rounds of
        these features. `n_features` is then the largest number of features, or in a backward search
        the smallest number. None means never.
    candidates
        Number of candidates scored in a round, drawn at random anew in every round (the paper's
        section 5); None means all features.
    random_state
        Seed of the draws of `candidates`.
    """

    kind: SearchName = "forward"
    fitting: Fitting = "pre"
    patience: int | None = None
    candidates: int | None = None
    random_state: int = 0


@dataclass(repr=False)
class Rescore(Options):
    """Picks by a ranking measure: each round scores its best candidates again.

    The measure is taken of the leave-query-out predictions, in one more pass over the documents in
    each round; the best of the candidates is picked.

    Parameters
    ----------
    metric
        A ranking measure, such as ``map`` or ``ndcg@10``. None means to pick by the squared error.
    n_candidates
        Number of candidates that each round scores again.
    convention
        Convention of the measure: standard, letor4, letor3, mslr, trec, or a `Convention`.
    """

    metric: str | None = None
    n_candidates: int = 10
    convention: str | Convention = DEFAULT_CONVENTION


@dataclass(repr=False)
class Costs(Options):
    """Costs of features: each round picks the feature that lowers the error most per cost.

    Parameters
    ----------
    costs
        Cost of computing each feature, at least 0: ``(n_features_in_,)`` in order, or name -> cost.
        None means that all features cost the same.
    groups
        Groups of features whose common cost is paid once, by the first feature selected: a label
        for each feature in order, None for a feature without a group; or name -> label.
    budget
        Largest cost of the selected features together. None means that there is no limit.
    """

    costs: CostValues | None = None
    groups: GroupLabels | None = None
    budget: float | None = None

    @classmethod
    def of(cls, given: Any) -> Self:
        """The costs that a user gives: `Costs`, None, or the cost of each feature."""
        return given if isinstance(given, cls) else cls(given)


@dataclass(repr=False)
class Forms(Options):
    """Forms of each raw feature that are candidates.

    Parameters
    ----------
    names
        "raw", "log", "query-minmax", "rank", "standard", "minmax", "quantile", "hinge", or one text
        such as "raw,log"; see `dranking.data.forms_dataset.with_forms`. A form is named like
        ``log(f12)``. With "product", also products of two columns such as ``f3 * log(f12)``; see
        `dranking.rankrls.greedy.candidates.with_candidates`. Forms are computed when blocks are
        read: data, memory and time are those of as many features as there are forms.
    per_feature
        Largest number of forms of one feature that are selected, beside any number of hinges and
        products.
    """

    names: str | Sequence[FormName] = ("raw",)
    per_feature: int = 1

    @property
    def each(self) -> Sequence[FormName]:
        """The names one by one, also of the text "raw,log", as `tune` and the options have it."""
        names = self.names.split(",") if isinstance(self.names, str) else self.names
        return cast(Sequence[FormName], names)


@dataclass(repr=False)
class Passes(Options):
    """The division of a pass over the data; the result is the same in every bit.

    Parameters
    ----------
    prefetch
        Gram rows fetched in one pass over the data: rows of upcoming picks, then of the best
        candidates. None means 32 where a sample of the data predicts the picks (dense data that
        stays in memory, or statistics, with picks by the error alone), 1 with `candidates`, and
        otherwise the number with which a pick takes the least time, estimated from the passes so
        far.
    feature_blocks
        Number of parts into which the features are split, each with its own tiles of the data; None
        means one part, or as many parts as are needed to fit a block of queries into a worker.
    """

    prefetch: int | None = None
    feature_blocks: int | None = None
