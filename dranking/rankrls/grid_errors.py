"""Leave-query-out errors of RankRLS on all features, for every lambda, from two passes.

From documents, the first pass sums products of X in double-double, which give R of X = Q R; the
second pass finds the rows of Q, and from these the residuals of each query under the model of all
other queries (`dranking.rankrls.kernels.lqo.orthogonal`). Where one query alone determines a
direction of the features, a third pass sums all other queries instead.

Statistics hold no documents; rows with the same sums of products take their place, with half the
digits. For more features than factors are made of, the first pass finds A = X'X, whose eigenvectors
take the place of the factor (`dranking.rankrls.wide_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Executor
from dranking.engine.tiles import Tiles
from dranking.errors import SCALE, STATED_ACCURACY, AccuracyWarning, listed, moved_by, warn_user
from dranking.models.linear.pairs_to_learn import check_pairs
from dranking.rankrls.checked_weights import CheckedRidge, CheckedWeights, Measured
from dranking.rankrls.dominant_queries import (
    DominantQueries,
    DominantQuery,
    block_sums,
    block_sums_without,
    dominant_errors,
    others_of_the_same_id,
)
from dranking.rankrls.gram.triangular_factor import (
    DOCUMENTS_PER_FEATURE,
    MAX_FACTORED_FEATURES,
    MAX_WIDE_FEATURES,
    takes_factors,
)
from dranking.rankrls.kernels.lqo.factor_rounding import (
    SAFETY,
    moved_errors,
    moved_residuals,
    share_of_exact,
)
from dranking.rankrls.kernels.lqo.orthogonal import lqo_residuals
from dranking.rankrls.normal_equations import DirectSolver, block_equations
from dranking.rankrls.row_forms import (
    DOCUMENTS,
    STORES,
    Basis,
    RowForm,
    products_of_rows,
)
from dranking.rankrls.statistics.per_query import QueryStatistics
from dranking.rankrls.wide_rows import wide_form

Array = NDArray[np.float64]

FACTOR_VALUES = 2**22
"""Largest number of entries in the factors that one pass finds together; the driver holds up to
`FAN_IN` such sets of factors."""


class GridErrors(NamedTuple):
    """Leave-query-out errors of a grid of lambdas, and the model of each of these lambdas.

    Attributes
    ----------
    lqo_error
        (n_lambdas,) float64 leave-query-out errors, summed over queries.
    lqo_rounding
        (n_lambdas,) estimated relative errors of `lqo_error` by rounding, at most 1.
    solve
        Function from lambda to the model of `RankRLS`, whose passes share the sums of the errors.
    """

    lqo_error: Array
    lqo_rounding: Array
    solve: Callable[[float], CheckedWeights]


def leave_query_out(
    dataset: Dataset, regularizations: Sequence[float], executor: Executor
) -> GridErrors:
    """Leave-query-out errors of RankRLS on all features, for every lambda.

    The errors follow from sums of products of the documents with 32 digits, or from those of a
    statistics store, which have 16. For data with too many features (`takes_factors`), the errors
    follow from A, which has 16 digits too.

    Parameters
    ----------
    dataset
        Labelled documents, or statistics.
    regularizations
        Values of lambda > 0.
    executor
        Where tasks run.

    Warns
    -----
    AccuracyWarning
        If rounding may change the errors by more than a share of `STATED_ACCURACY`.
    """
    lambdas = np.array(regularizations, dtype=np.float64)
    if takes_factors(dataset):
        form = DOCUMENTS if dataset.has_documents else STORES
        sums, *equations = Tiles(dataset, executor, resident=False).sum_blocks(
            partial(with_one_blas_thread, sums_and_equations), form, name="sums-of-rows"
        )
        normal = DirectSolver(*equations)
        found, features = errors_from_rows(dataset, form, (sums, normal), lambdas, executor)
        if not features:
            reason = "the features predict the relevance nearly without error"
            remedy = "Add larger values of lambda, or take any of the values with small errors."
        else:
            names = listed([dataset.feature_names[feature] for feature in features])
            reason = f"these features nearly depend on other features: {names}"
            remedy = "Leave out these features, or features on which they depend."
        if not dataset.has_documents:
            reason = f"they follow from sums of products of the features, and {reason}"
            remedy += " The documents themselves have twice the digits."
    else:
        form, normal = wide_form(dataset.has_documents), DirectSolver.of(dataset, executor)
        found, _ = errors_from_rows(dataset, form, (normal.sums, normal), lambdas, executor)
        reason = "they follow from sums of products of the features"
        remedy = (
            f"Scale the features ({SCALE}), or choose lambda from the documents "
            f"(of at most {MAX_WIDE_FEATURES} features, or {MAX_FACTORED_FEATURES:,} with "
            f"{DOCUMENTS_PER_FEATURE} documents for each feature)."
        )
    worst = float(found.lqo_rounding.max())
    if worst > STATED_ACCURACY:
        doubtful = [f"{value:g}" for value in lambdas[found.lqo_rounding > STATED_ACCURACY]]
        warn_user(
            f"rounding may change the leave-query-out errors {moved_by(worst)}: {reason}. "
            f"The errors of lambda {listed(doubtful)} are in doubt. {remedy}",
            AccuracyWarning,
        )
    return found


def sums_and_equations(
    block: QueryBlock | QueryStatistics, form: RowForm
) -> tuple[Any, Array, Array, float]:
    """Sums of the rows of a block, and A, b and y.y as `RankRLS` adds them up."""
    return block_sums(block, form), *block_equations(block)


def errors_from_rows(
    dataset: Dataset,
    form: RowForm,
    totals: tuple[Any, DirectSolver],
    lambdas: Array,
    executor: Executor,
) -> tuple[GridErrors, list[int]]:
    """Leave-query-out errors of rows of documents or of a store.

    Parameters
    ----------
    totals
        The sums of the rows, and the normal equations.

    Returns
    -------
    The errors, and the features that cause most of the rounding; the list is empty if the rounding
    is large only because the errors are small.
    """
    tiles, n = Tiles(dataset, executor, resident=False), dataset.n_features + 1
    sums, normal = totals
    task = executor.submit(with_one_blas_thread, form.basis, sums, name="rotation")
    errors, moved, check, dominant = tiles.sum_blocks(
        partial(with_one_blas_thread, row_errors), form, task, lambdas, name="leave-query-out"
    )
    [basis] = executor.gather([task])
    check_pairs(normal.label_norm, dataset, executor)
    found = with_one_blas_thread(form.rounding, sums, basis, check, lambdas)
    off, features = moved_errors(moved, found.own, found.of_factor) + found.of_sums, found.features
    step = max(1, FACTOR_VALUES // (2 * n * n))
    for first in range(0, len(dominant.queries), step):
        some = dominant.queries[first : first + step]
        others, own_rows = tiles.sum_blocks(
            partial(with_one_blas_thread, block_sums_without),
            form,
            tuple(query.query_id for query in some),
            name="leave-query-out-factors",
        )
        tasks = [
            executor.submit(
                with_one_blas_thread,
                dominant_errors,
                query,
                form,
                [other, *others_of_the_same_id(query, form, own_rows)],
                lambdas,
                name="leave-query-out",
            )
            for query, other in zip(some, others, strict=True)
        ]
        for its_errors, its_off, of_others in executor.gather(tasks):
            errors, off = errors + its_errors, off + its_off
            features = list(dict.fromkeys([*features, *of_others]))
    # Errors of dominant queries are rounded too, and so are the roots of query weights.
    off = off + SAFETY * n * np.finfo(float).eps * errors
    measured = Measured(sums, basis, check) if form is DOCUMENTS else None
    solve = CheckedRidge(dataset, normal, executor, measured).fit
    return GridErrors(np.asarray(errors), share_of_exact(errors, off), solve), features


def row_errors(
    block: QueryBlock | QueryStatistics, form: RowForm, basis: Basis, regularizations: Array
) -> tuple[Array, Array, Array, DominantQueries]:
    """Errors of a block's queries that are not dominant, and the dominant queries.

    Returns
    -------
    (n_lambdas,) errors; `moved_residuals` of the queries; the Gram matrix of the rows [Q, rest, y]
    of documents, of shape (n_features + 1, n_features + 1), zero for a store; the dominant queries.
    """
    rotation, query, n, least_margin = basis.rotation, 0, block.n_features + 1, form.least_margin
    divisors = regularizations / (basis.smallest + regularizations)
    errors, moved = np.zeros(len(regularizations)), np.zeros((2, 2, len(regularizations)))
    check, dominant = np.zeros((n, n)), []
    for rows, ptr in form.rows(block):
        solved, labels = form.orthogonal(rows, basis.factor), np.atleast_2d(rows[..., -1])[0]
        if form.leading:
            check += products_of_rows(solved, labels)
        rotated = solved[:, : len(rotation.left)] @ rotation.left
        all_squares, all_margins = np.zeros((2, len(ptr) - 1, len(regularizations)))
        for place, (start, stop) in enumerate(pairwise(ptr.tolist())):
            residuals, margins = lqo_residuals(
                rotated[start:stop], labels[start:stop], rotation, regularizations, least_margin
            )
            kept = margins >= least_margin
            all_squares[place, kept] = np.square(residuals[kept]).sum(axis=1)
            all_margins[place] = margins
            errors += all_squares[place]
            if not kept.all():
                own = form.own(rows[..., start:stop, :])
                dominant.append(DominantQuery(block.query_ids[query].as_py(), own, ~kept))
            query += 1
        # At once for all queries: one by one, these few numbers took 4 % of the fit.
        kept = all_margins >= least_margin
        norms, margins = np.sqrt(all_squares), np.where(kept, all_margins, 1.0)
        moved += moved_residuals(norms, margins, rotation.label_norm, divisors)
    return errors, moved, check, DominantQueries(dominant)
