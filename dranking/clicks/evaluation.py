"""Values of rankers on clicks, for models and data in any form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from dranking.clicks.counts import ClickCounts
from dranking.clicks.off_policy.off_policy import QueryValues, query_values
from dranking.clicks.off_policy.off_policy_value import (
    LEAST_COVERED,
    MOST_MISSING,
    OffPolicyValue,
    off_policy_value,
)
from dranking.clicks.off_policy.pages import Pages
from dranking.clicks.off_policy.rewards import parse_reward
from dranking.clicks.off_policy.unseen_clicks import as_logged, check_other_nights, check_unseen
from dranking.clicks.propensities.propensities import Propensities
from dranking.clicks.store.source import ClickSource, as_source, sum_of_buckets
from dranking.data.dataset import Dataset
from dranking.data.roles import Columns
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.errors import ClickWarning, DataError, warn_user
from dranking.files.key_values import names_in
from dranking.ingestion.open import open_dataset
from dranking.models.linear.model import LinearModel
from dranking.models.scorers import (
    map_scored,
    needed_features,
    score_column,
    scorer_beside,
)

REWARDS = ("clicks@10", "dcg@10")


def evaluate_on_clicks(  # noqa: PLR0913 - one call with keywords, as commands have options
    model: Any,
    data: Any,
    clicks: ClickSource | ClickCounts | Sequence[ClickCounts],
    propensities: Propensities,
    rewards: str | Sequence[str] = REWARDS,
    *,
    other: Any = None,
    trained_on: ClickSource | ClickCounts | Sequence[ClickCounts] | None = None,
    allow_same_nights: bool = False,
    least_covered: float = LEAST_COVERED,
    max_missing: float = MOST_MISSING,
    executor: Any = None,
) -> list[OffPolicyValue]:
    """Estimate the expected clicks and DCG of a model's pages from clicks on other pages.

    Method and conditions stand in `dranking.clicks.off_policy.off_policy`.

    Parameters
    ----------
    model
        Whatever `dranking.evaluate` takes as a model.
    data
        The documents of the queries, with ids as in the clicks; labels are not read. A data set, a
        table or a path.
    clicks
        Counts, or a click store (`dranking.clicks.store.click_store.open_click_store`), of other
        nights or other queries than the model was trained on.
    propensities
        Propensities of examination.
    rewards
        Names, also as one text with commas: ``clicks@K`` and ``dcg@K``.
    other
        A model whose values are subtracted: then the values are differences.
    trained_on
        The clicks that the model was trained on, if it was; they are compared with `clicks`, query
        by query. If None, nights are compared with those that the models record.
    allow_same_nights
        Whether `clicks` may be of nights that the models record: clicks of other users.
    least_covered
        Covered share of the pages below which there is no value.
    max_missing
        Share of the sessions with queries that the data lacks, above which there is no value; 1 for
        queries that were held out on purpose.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Returns
    -------
    One value for each reward.

    Raises
    ------
    UsageError
        If there is no such reward, or the propensities have too few positions.
    DataError
        If the clicks cover too little of the pages or too few queries, are on too many queries that
        the data lacks, are those that the model was
        trained on; if the documents have no ids; or if a query or a document of a query occurs
        twice.

    Warns
    -----
    ClickWarning
        If `trained_on` is not given, and a model does not record of which nights the clicks are
        that it was trained on.
    """
    source, run = as_source(clicks), get_executor(executor)
    models = [model] if other is None else [model, other]
    if trained_on is not None:
        check_unseen(source, as_source(trained_on))
    elif not allow_same_nights:
        _check_nights(models, source)
    values = values_of_pages(models, data, source, propensities, rewards, run)
    return [
        off_policy_value(
            found,
            propensities,
            name if other is None else f"difference of {name}",
            least_covered=least_covered,
            max_missing=max_missing,
        )
        for name, found in values.items()
    ]


def _check_nights(models: Sequence[Any], clicks: ClickSource) -> None:
    """Check the nights that models record; warn if one records none."""
    trained = [_click_nights(each) for each in models]
    for nights in trained:
        if nights is not None:
            check_other_nights(clicks, nights)
    if None in trained:
        warn_user(
            "the values hold for clicks that the model was not trained on: of later nights, or of "
            "held-out queries. Name the clicks of the training (--trained-on) to check this.",
            ClickWarning,
        )


def _click_nights(model: Any) -> tuple[str, str] | None:
    """First and last night of the clicks that a model was trained on, if it records them."""
    fitted = model.fitted_model() if hasattr(model, "fitted_model") else model
    return fitted.click_nights if isinstance(fitted, LinearModel) else None


def values_of_pages(
    models: Sequence[Any],
    data: Any,
    clicks: ClickSource,
    propensities: Propensities,
    rewards: str | Sequence[str],
    executor: Executor,
) -> dict[str, QueryValues]:
    """Values of a model's pages for every query of the clicks, by reward.

    Parameters
    ----------
    models
        One model; or two, and then values are those of the first less those of the second.
    data, clicks, propensities, rewards
        As in `evaluate_on_clicks`. Whether a model was trained on these clicks is not checked.

    Raises
    ------
    UsageError, DataError
        As `evaluate_on_clicks` for the rewards and the data.
    """
    names = names_in(rewards) if isinstance(rewards, str) else rewards
    named = [parse_reward(name) for name in names]
    cutoff = max(reward.cutoff for reward in named)
    pages = [as_logged(pages_of(model, data, cutoff, executor), clicks) for model in models]
    return {
        reward.name: sum_of_buckets(
            query_values, clicks, executor, propensities, reward, *pages, name="values of pages"
        )
        for reward in named
    }


def pages_of(model: Any, data: Any, cutoff: int, executor: Executor) -> Pages:
    """The first documents of a model for every query of some data.

    Raises
    ------
    UsageError, DataError
        As `dranking.models.scorers.measure`; or if the documents have no ids, or a query or a
        document of a query occurs twice.
    """
    model, dataset = scorer_beside(model, data), data
    if not isinstance(data, Dataset):
        columns = Columns(
            needed=needed_features(model), score=score_column([model]), relevance=None
        )
        dataset = open_dataset(data, columns=columns)
    dataset.check_documents()
    top = partial(Pages.of_block, cutoff=cutoff)
    found = list(map_scored(model, dataset, top, executor, combine=Pages.concatenate, name="pages"))
    if not found:
        raise DataError("the data has no queries; there is nothing to evaluate.")
    pages = Pages.concatenate(found)
    pages.check_queries_once()
    return pages
