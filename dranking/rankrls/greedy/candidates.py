"""The columns that a selection may pick: forms of features, and products of forms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.column_forms import ColumnForms, forms_of
from dranking.data.dataset import Dataset
from dranking.data.forms_dataset import (
    PRODUCT,
    FormsDataset,
    check_raw,
    column_names,
    with_forms,
)
from dranking.data.transforms import Hinge
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import blocks_on, map_blocks
from dranking.errors import UsageError, listed
from dranking.models.linear.estimator import feature_indices
from dranking.rankrls.gram.moments import block_totals
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths

Array = NDArray[np.float64]

STRENGTHS = tuple(2.0**exponent for exponent in (-10, -7, -4, -1, 2))
"""lambda to try, as shares of the median sum of squares of a column within queries."""

N_MULTIPLIED = 5
"""Number of selected columns that are multiplied by other features."""

N_PARTNERS = 200
"""Number of features by which they are multiplied, so that wide data has 1,000 products at most."""


def with_candidates(
    dataset: Dataset, names: Sequence[str], executor: Executor, forbidden: Sequence[int | str] = ()
) -> Dataset:
    """A view of a data set with each feature in several forms, and with products of forms.

    "product" adds products to the columns of the other forms. The first `N_MULTIPLIED` columns that
    greedy RankRLS selects among these, with the one of five lambdas whose leave-query-out error is
    smallest, are each multiplied by every other feature, in the form that alone predicts best; of
    more than `N_PARTNERS` features, by those that alone predict best. The selection that finds them
    heeds `forbidden` and no other rule: with any `start`, the columns are the same. No factor is
    centred: beside its factors a product of centred values spans the same scores, and the formula
    of raw values is shorter. A product that has the name of another column is left out.

    Parameters
    ----------
    dataset
        Raw data; with "product", labelled queries.
    names
        As `with_forms` takes them, and "product".
    executor
        Reads the blocks, and selects.
    forbidden
        Features that are in no product, by index or name, as in `GreedyRankRLS`.

    Raises
    ------
    UsageError
        If "product" has no other form beside it, or is given twice; and as of `with_forms`.
    DataError
        As of `with_forms`; or nothing can be learned from the queries.
    """
    others = check_products(names)
    if len(others) == len(names):
        return with_forms(dataset, names, blocks_on(executor))
    check_raw(dataset)
    base = with_forms(dataset, others, blocks_on(executor))
    forms = forms_of(base.transforms) or ColumnForms(
        sources=base.feature_names, forms=(None,) * base.n_features
    )
    alone = [(i,) for i in range(base.n_features)]
    columns = (*alone, *_pairs(base, forms, executor, forbidden))
    named: dict[str, tuple[int, ...]] = {}
    of_all = forms.model_copy(update={"factors": columns})
    for name, of in zip(column_names(of_all, base.constants), columns, strict=True):
        named.setdefault(name, of)  # the data may have a column "a * b" beside a and b
    if len(named) == base.n_features:
        return base
    return FormsDataset(dataset, forms.model_copy(update={"factors": (*named.values(),)}))


def check_products(names: Sequence[str]) -> list[str]:
    """The names of forms other than "product"; UsageError if that is given twice or alone."""
    others = [name for name in names if name != PRODUCT]
    n_products = len(names) - len(others)
    if n_products > 1 or (n_products and not others):
        raise UsageError(
            f"forms are {listed(names)}; product multiplies columns of other forms: give it "
            "once, beside others, as in raw,product."
        )
    return others


def _pairs(
    base: Dataset, forms: ColumnForms, executor: Executor, forbidden: Sequence[int | str]
) -> list[tuple[int, int]]:
    """Positions of the two factors of each product, in order."""
    diagonal, products = column_totals(base, executor)
    lambdas = [strength * median_square(diagonal) for strength in STRENGTHS]
    rules = SelectionRules(1, forbidden=_forbidden_among(base, forms, forbidden))
    rules = replace(rules, n_features=min(N_MULTIPLIED, rules.most_selected(base)))
    if not rules.n_features:
        return []
    found = select_paths(base, lambdas, rules, executor=executor)
    path = min(found.paths, key=lambda each: min(each.lqo_error))
    gains = products**2 / (diagonal + path.regularization)
    best: dict[str, int] = {}
    for column in rules.allowed(base.n_features).tolist():
        source = forms.sources[column]
        if isinstance(forms.forms[column], Hinge):
            continue
        if source not in best or gains[column] > gains[best[source]]:
            best[source] = column
    partners = sorted(best.values(), key=lambda column: -gains[column])[:N_PARTNERS]
    pairs = {
        (min(term, other), max(term, other))
        for term in path.selected
        for other in partners
        if forms.sources[other] != forms.sources[term]
    }
    return sorted(pairs)


def _forbidden_among(
    base: Dataset, forms: ColumnForms, forbidden: Sequence[int | str]
) -> list[int]:
    """Indices of the forbidden columns of forms; others are those of products."""
    if isinstance(forbidden, str) or not isinstance(forbidden, Iterable):
        return feature_indices(base, forbidden, "forbidden")
    known = {*base.feature_names, *forms.sources, *range(base.n_features)}
    # What names no column is refused by the selection that follows.
    named = [each for each in forbidden if isinstance(each, str | int | np.integer)]
    return forbidden_columns(base, [each for each in named if each in known])


def forbidden_columns(dataset: Dataset, features: Sequence[int | str]) -> list[int]:
    """Indices of columns that are named by index or by name, or whose raw feature is named."""
    forms = forms_of(dataset.transforms)
    if forms is None or isinstance(features, str) or not isinstance(features, Iterable):
        return feature_indices(dataset, features, "forbidden")
    features = list(features)
    of_raw = [
        column
        for column, of in enumerate(forms.columns)
        if any(forms.sources[i] in features for i in of)
    ]
    others = [feature for feature in features if feature not in forms.sources]
    return [*of_raw, *feature_indices(dataset, others, "forbidden")]


def column_totals(dataset: Dataset, executor: Executor) -> tuple[Array, Array]:
    """Sums of squares of each column, and of products with the labels, within queries."""
    parts = map_blocks(_totals, dataset, executor, name="moments")
    squares, products = reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]), parts)
    return squares, products


def median_square(squares: Array) -> float:
    """Median of the sums of squares above 0, as a power of two; 1 without any."""
    varying = squares[squares > 0.0]
    return float(2.0 ** round(math.log2(np.median(varying)))) if len(varying) else 1.0


def _totals(block: QueryBlock) -> tuple[Array, Array]:
    squares, products, _ = block_totals(block.labelled())
    return squares, products
