"""Leave-query-out errors of RankRLS on all features, for every lambda, from two passes.

From documents, the first pass sums products of X in double-double, which give R of X = Q R; the
second pass finds the rows of Q, and from these the residuals of each query under the model of all
other queries (`dranking.rankrls.kernels.lqo.orthogonal`). Where one query alone determines a
direction of the features, a third pass sums all other queries instead.

Statistics hold no documents; rows with the same sums of products take their place, with half the
digits. For more features than factors are made of, the first pass finds A = X'X, and the second
pass solves for each query and lambda the system without the query in the eigenvectors of A
(`dranking.rankrls.kernels.lqo.all_features`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Executor
from dranking.engine.tiles import Tiles
from dranking.errors import SCALE, STATED_ACCURACY, AccuracyWarning, listed, moved_by, warn_user
from dranking.models.linear.pairs_to_learn import check_pairs
from dranking.rankrls.checked_weights import (
    CheckedRidge,
    CheckedWeights,
    checked_from_rows,
)
from dranking.rankrls.dominant_queries import (
    DominantQueries,
    DominantQuery,
    block_sums,
    block_sums_without,
    dominant_errors,
    others_of_the_same_id,
)
from dranking.rankrls.gram.statistics_store import statistics_errors
from dranking.rankrls.gram.triangular_factor import (
    DOCUMENTS_PER_FEATURE,
    MAX_FACTORED_FEATURES,
    MAX_WIDE_FEATURES,
    takes_factors,
)
from dranking.rankrls.kernels.gram.per_query import centred_strips
from dranking.rankrls.kernels.lqo.all_features import lqo_residuals as residuals_in_eigenvectors
from dranking.rankrls.kernels.lqo.factor_rounding import (
    SAFETY,
    error_rounding,
    moved_errors,
    moved_residuals,
    share_of_exact,
    sums_rounding,
)
from dranking.rankrls.kernels.lqo.orthogonal import LEAST_MARGIN, lqo_residuals
from dranking.rankrls.normal_equations import DirectSolver
from dranking.rankrls.row_forms import (
    DOCUMENTS,
    STORES,
    Basis,
    RowForm,
    products_of_rows,
)
from dranking.rankrls.statistics.per_query import QueryStatistics

Array = NDArray[np.float64]

FACTOR_VALUES = 2**22
"""Largest number of entries in the factors that one pass finds together; the driver holds up to
`FAN_IN` such sets of factors."""


class GridErrors(NamedTuple):
    """Leave-query-out errors of a grid of lambdas, and a solver for each of these lambdas.

    Attributes
    ----------
    lqo_error
        (n_lambdas,) float64 leave-query-out errors, summed over queries.
    lqo_rounding
        (n_lambdas,) estimated relative errors of `lqo_error` by rounding, at most 1.
    solve
        Function from lambda to the weights, the minimum of the objective, and their rounding.
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
        found, features = errors_from_rows(dataset, lambdas, executor)
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
        normal = DirectSolver(dataset, executor)
        check_pairs(normal.label_norm, dataset, executor)
        errors, rounding = errors_from_gram(normal, dataset, lambdas, executor)
        ridge = CheckedRidge(dataset, normal, executor)
        found = GridErrors(errors, rounding, ridge.fit)
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


def errors_from_rows(
    dataset: Dataset, lambdas: Array, executor: Executor
) -> tuple[GridErrors, list[int]]:
    """Leave-query-out errors of rows of documents or of a store, in two passes or more.

    Returns
    -------
    The errors, and the features that cause most of the rounding; the list is empty if the rounding
    is large only because the errors are small.
    """
    form = DOCUMENTS if dataset.has_documents else STORES
    tiles = Tiles(dataset, executor, resident=False)
    total = tiles.sum_blocks(partial(with_one_blas_thread, block_sums), form, name="sums-of-rows")
    task = executor.submit(with_one_blas_thread, form.basis, total, name="rotation")
    errors, moved, check, dominant = tiles.sum_blocks(
        partial(with_one_blas_thread, row_errors), form, task, lambdas, name="leave-query-out"
    )
    [basis] = executor.gather([task])
    check_pairs(basis.rotation.label_norm**2, dataset, executor)
    found = with_one_blas_thread(form.rounding, total, basis, check, lambdas)
    off, features = moved_errors(moved, found.own, found.of_factor) + found.of_sums, found.features
    step = max(1, FACTOR_VALUES // total.values.size)
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
    off = off + SAFETY * (dataset.n_features + 1) * np.finfo(float).eps * errors
    solve = partial(with_one_blas_thread, checked_from_rows, form, total, basis, check)
    return GridErrors(np.asarray(errors), share_of_exact(errors, off), solve), features


def errors_from_gram(
    normal: DirectSolver, dataset: Dataset, lambdas: Array, executor: Executor
) -> tuple[Array, Array]:
    """(n_lambdas,) leave-query-out errors from eigenvectors of A in one pass; their rounding.

    Each eigenvalue of A is wrong by the rounding of the largest eigenvalue; the least eigenvalue of
    every held-out system must exceed this rounding.
    """
    values, vectors = linalg.eigh(normal.gram)
    values = np.maximum(values, 0.0)
    spectrum = (values, vectors.T @ normal.products, lambdas)
    tiles = Tiles(dataset, executor, resident=False)
    basis = executor.submit(np.asarray, vectors, name="eigenvectors")
    errors, squares = tiles.sum_blocks(
        partial(with_one_blas_thread, gram_errors), basis, spectrum, name="leave-query-out"
    )
    # The root of the sum exceeds the largest term at most by a factor sqrt(number of queries).
    relative = SAFETY * np.finfo(float).eps * values[-1] * float(np.sqrt(squares))
    off = error_rounding(errors, np.full(len(lambdas), relative * normal.label_norm**0.5))
    if not dataset.has_documents:
        weights = (spectrum[1] / (values + lambdas[:, None])) @ vectors.T
        squares_of_columns = np.append(normal.gram.diagonal(), normal.label_norm)
        off += sums_rounding(weights, np.sqrt(squares_of_columns))
    return errors, share_of_exact(errors, off)


def gram_errors(
    block: QueryBlock | QueryStatistics, vectors: Array, spectrum: tuple[Array, Array, Array]
) -> tuple[Array, np.float64]:
    """(n_lambdas,) leave-query-out errors of the queries of one block, summed in order.

    The second result is the sum over queries of the inverse square of the least eigenvalue, or of a
    lower bound of it, of the held-out system with the least lambda.
    """
    if isinstance(block, QueryStatistics):
        return statistics_errors(block, vectors, spectrum)
    values, products, lambdas = spectrum
    errors, squares = np.zeros(len(lambdas)), np.float64(0.0)
    shifted = values + lambdas.min()
    for rotated, labels, ptr in centred_strips(
        block.features, block.relevance, block.query_ptr, block.weights, vectors
    ):
        for start, stop in pairwise(ptr.tolist()):
            residuals = residuals_in_eigenvectors(
                rotated[start:stop], labels[start:stop], values, products, lambdas
            )
            errors += np.square(residuals).sum(axis=1)
            share = min(float(np.linalg.norm(rotated[start:stop] / np.sqrt(shifted), 2)), 1.0) ** 2
            # No eigenvalue is less than lambda.
            squares += 1.0 / max((1.0 - share) * shifted[0], lambdas.min()) ** 2
    return errors, squares


def row_errors(
    block: QueryBlock | QueryStatistics, form: RowForm, basis: Basis, regularizations: Array
) -> tuple[Array, Array, Array, DominantQueries]:
    """Errors of a block's queries that are not dominant, and the dominant queries.

    Returns
    -------
    (n_lambdas,) errors; `moved_residuals` of the queries; the Gram matrix of the rows [Q, rest, y]
    of documents, of shape (n_features + 1, n_features + 1), zero for a store; the dominant queries.
    """
    rotation, query, n = basis.rotation, 0, block.n_features + 1
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
                rotated[start:stop], labels[start:stop], rotation, regularizations
            )
            kept = margins >= LEAST_MARGIN
            all_squares[place, kept] = np.square(residuals[kept]).sum(axis=1)
            all_margins[place] = margins
            errors += all_squares[place]
            if not kept.all():
                own = form.own(rows[..., start:stop, :])
                dominant.append(DominantQuery(block.query_ids[query].as_py(), own, ~kept))
            query += 1
        # At once for all queries: one by one, these few numbers took 4 % of the fit.
        kept = all_margins >= LEAST_MARGIN
        norms, margins = np.sqrt(all_squares), np.where(kept, all_margins, 1.0)
        moved += moved_residuals(norms, margins, rotation.label_norm)
    return errors, moved, check, DominantQueries(dominant)
