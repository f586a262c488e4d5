"""Clicks that a ranker was not trained on: of other nights, or of other queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dranking.clicks.hashes import hashed_texts
from dranking.clicks.off_policy.pages import Pages
from dranking.clicks.store.click_store import ClickStore
from dranking.clicks.store.source import ClickSource, nights_of
from dranking.errors import DataError


def as_logged(pages: Pages, clicks: ClickSource) -> Pages:
    """Pages with the ids of queries as they are in the clicks: hashes, if the store has hashes."""
    salt = _salt(clicks)
    if salt is None:
        return pages
    return replace(pages, query_ids=np.array(hashed_texts(pages.query_ids.tolist(), salt), np.str_))


def check_other_nights(clicks: ClickSource, trained: tuple[str, str]) -> None:
    """Check that the clicks of a value are of no night from the first to the last of a training.

    Raises
    ------
    DataError
        If they are.
    """
    same = [night for night in nights_of(clicks) if trained[0] <= night <= trained[1]]
    if same:
        raise DataError(
            f"the model was trained on clicks of {trained[0]} to {trained[1]}, and these clicks "
            f"have {len(same)} of these nights ({same[0]} to {same[-1]}): a ranker shows the "
            "documents that were lucky in its training. Take clicks of other nights "
            "(--clicks-since); or, for queries that were held out, name the clicks of the training "
            "(--trained-on), with which queries are compared; or, if these are clicks of other "
            "users, give --allow-same-nights."
        )


def check_unseen(clicks: ClickSource, trained_on: ClickSource) -> None:
    """Check that the clicks of a value are of other nights or other queries than trained on.

    Raises
    ------
    DataError
        If a query has clicks of one night in both; or if both have one night, and their queries
        are hashed in different ways, so that they cannot be compared.
    """
    trained, later = _nights_of_queries(trained_on), _nights_of_queries(clicks)
    if _salt(clicks) != _salt(trained_on):
        both = set().union(*trained.values()) & set().union(*later.values())
        if both:
            raise DataError(
                f"the clicks and those of the training both have the night {min(both)}, and hash "
                "their queries differently, so that queries cannot be compared. Take clicks of "
                "later nights (--clicks-since), or build both stores with one salt."
            )
        return
    shared = {query: nights & trained.get(query, set()) for query, nights in later.items()}
    shared = {query: nights for query, nights in shared.items() if nights}
    if shared:
        nights = set().union(*shared.values())
        example = f", such as {min(shared)!r}," if _salt(clicks) is None else ""
        raise DataError(
            f"{len(shared):,} queries{example} have clicks of the same nights "
            f"({min(nights)} to {max(nights)}) in the clicks that the model was trained on: a "
            "ranker shows the documents that were lucky in its training. Take clicks of later "
            "nights (--clicks-since), or of queries that were held out."
        )


def _salt(source: ClickSource) -> str | None:
    """The salt of hashed queries; None where queries are texts."""
    if isinstance(source, ClickStore) and not source.manifest.keep_queries:
        return source.manifest.salt
    return None


def _nights_of_queries(source: ClickSource) -> dict[str, set[str]]:
    """The nights on which each query has counts."""
    found: dict[str, set[str]] = {}
    for bucket in source.buckets:
        counts = source.counts(bucket)
        pairs = np.unique(np.stack([counts.query, counts.night]), axis=1)
        for query, night in pairs.T.tolist():
            found.setdefault(str(counts.query_ids[query]), set()).add(str(counts.nights[night]))
    return found
