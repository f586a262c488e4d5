"""Leave-query-out errors of RankRLS on all features, for every lambda, from two passes.

From documents, the first pass finds R of X = Q R, and the second pass the residuals of each query
under the model of all other queries (`dranking.kernels.lqo.orthogonal`). Where one query alone
determines a direction of the features, a third pass finds R of all other queries instead.

Statistics hold no documents; rows with the same sums of products take their place, with half the
digits. For more features than factors are made of, the first pass finds A = X'X, and the second
pass solves for each query and lambda the system without the query in the eigenvectors of A
(`dranking.kernels.lqo.all_features`).
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
from dranking.data.statistics.per_query import QueryStatistics
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Executor
from dranking.engine.tiles import Tiles
from dranking.errors import STATED_ACCURACY, AccuracyWarning, listed, warn_user
from dranking.kernels.gram.per_query import centred_strips
from dranking.kernels.lqo.all_features import lqo_residuals as residuals_in_eigenvectors
from dranking.kernels.lqo.factor_rounding import (
    SAFETY,
    error_rounding,
    relative_rounding,
    residual_rounding,
    share_of_exact,
)
from dranking.kernels.lqo.orthogonal import (
    LEAST_MARGIN,
    Rotation,
    lqo_residuals,
    ridge_from_factor,
    rotated_rows,
    rotation_of,
    triangle_of,
)
from dranking.rankers.gram.statistics_store import statistics_errors
from dranking.rankers.gram.triangular_factor import (
    DOCUMENTS_PER_FEATURE,
    MAX_FACTORED_FEATURES,
    MAX_WIDE_FEATURES,
    TriangularFactor,
    centred_rows,
    factor_of,
    takes_factors,
)
from dranking.rankers.rankrls.dominant_queries import (
    DominantQueries,
    DominantQuery,
    block_factors_without,
    dominant_errors,
    others_of_the_same_id,
)
from dranking.rankers.rankrls.estimator import DirectSolver

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
    relative_rounding
        Estimated relative error of `lqo_error` by rounding, at most 1.
    solve
        Function from lambda to the weights (n_features,) and the minimum of the objective.
    """

    lqo_error: Array
    relative_rounding: float
    solve: Callable[[float], tuple[Array, float]]


def leave_query_out(
    dataset: Dataset, regularizations: Sequence[float], executor: Executor
) -> GridErrors:
    """Leave-query-out errors of RankRLS on all features, for every lambda.

    The errors follow from orthogonal factors of the documents, or of the sums of products of a
    statistics store, which have half the digits. For data with too many features (`takes_factors`),
    the errors follow from A, which has half the digits too.

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
        factor = factor_of(dataset, executor)
        errors, rounding, features = errors_from_factor(factor, dataset, lambdas, executor)
        solve = partial(with_one_blas_thread, ridge_from_factor, factor.values)
        found = GridErrors(errors, rounding, solve)
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
        errors, rounding = errors_from_gram(normal, dataset, lambdas, executor)
        found = GridErrors(errors, rounding, normal.minimum)
        reason = "they follow from sums of products of the features"
        remedy = (
            "Scale the features (--normalize standard), or choose lambda from the documents "
            f"(of at most {MAX_WIDE_FEATURES} features, or {MAX_FACTORED_FEATURES:,} with "
            f"{DOCUMENTS_PER_FEATURE} documents for each feature)."
        )
    if found.relative_rounding > STATED_ACCURACY:
        warn_user(
            f"rounding may change the leave-query-out errors by a share of {rounding:.0e}: "
            f"{reason}. {remedy}",
            AccuracyWarning,
        )
    return found


def errors_from_factor(
    factor: TriangularFactor,
    dataset: Dataset,
    lambdas: Array,
    executor: Executor,
) -> tuple[Array, float, list[int]]:
    """Leave-query-out errors from the factor of all documents, in one pass or more.

    Returns
    -------
    (n_lambdas,) errors; the estimated relative error of these by rounding; the features that cause
    most of this rounding, none if no feature does but the errors are small.
    """
    tiles = Tiles(dataset, executor, resident=False)
    rotation = executor.submit(rotation_task, factor, name="rotation")
    digits_lost = 1 if dataset.has_documents else 2
    rounding, features = with_one_blas_thread(
        relative_rounding, factor.values, lambdas, digits_lost
    )
    errors, off, dominant = tiles.sum_blocks(
        partial(with_one_blas_thread, document_errors),
        rotation,
        lambdas,
        rounding,
        name="leave-query-out",
    )
    n = len(factor.values)
    step = max(1, FACTOR_VALUES // (n * n))
    for first in range(0, len(dominant.queries), step):
        some = dominant.queries[first : first + step]
        others, own = tiles.sum_blocks(
            partial(with_one_blas_thread, block_factors_without),
            tuple(query.query_id for query in some),
            name="leave-query-out-factors",
        )
        tasks = [
            executor.submit(
                with_one_blas_thread,
                dominant_errors,
                query,
                [other, *others_of_the_same_id(query, own)],
                lambdas,
                digits_lost,
                name="leave-query-out",
            )
            for query, other in zip(some, others, strict=True)
        ]
        for its_errors, its_off, of_others in executor.gather(tasks):
            errors, off = errors + its_errors, off + its_off
            features = list(dict.fromkeys([*features, *of_others]))
    return np.asarray(errors), float(share_of_exact(errors, off).max()), features


def errors_from_gram(
    normal: DirectSolver, dataset: Dataset, lambdas: Array, executor: Executor
) -> tuple[Array, float]:
    """(n_lambdas,) leave-query-out errors from the eigenvectors of A in one pass; their rounding.

    Each eigenvalue of A is off by the rounding of the largest eigenvalue, which the least
    eigenvalue of every held-out system must exceed.
    """
    values, vectors = linalg.eigh(normal.gram)
    values = np.maximum(values, 0.0)
    spectrum = (values, vectors.T @ normal.products, lambdas)
    tiles = Tiles(dataset, executor, resident=False)
    basis = executor.submit(np.asarray, vectors, name="eigenvectors")
    errors, squares = tiles.sum_blocks(
        partial(with_one_blas_thread, gram_errors), basis, spectrum, name="leave-query-out"
    )
    # The root of a sum of squares is at most the root of the number of queries too large.
    relative = SAFETY * np.finfo(float).eps * values[-1] * float(np.sqrt(squares))
    off = error_rounding(errors, np.full(len(lambdas), relative * normal.label_norm**0.5))
    return errors, float(share_of_exact(errors, off).max())


def gram_errors(
    block: QueryBlock | QueryStatistics, vectors: Array, spectrum: tuple[Array, Array, Array]
) -> tuple[Array, np.float64]:
    """(n_lambdas,) leave-query-out errors of the queries of one block, summed in order.

    Also the sum of the inverse squares of the least eigenvalues of the held-out systems with the
    least lambda, or of lower bounds.
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
            # lambda is the least eigenvalue that there can be.
            squares += 1.0 / max((1.0 - share) * shifted[0], lambdas.min()) ** 2
    return errors, squares


def rotation_task(factor: TriangularFactor) -> Rotation:
    """The rotation of a factor, with one thread of BLAS."""
    rotation: Rotation = with_one_blas_thread(rotation_of, factor.values)
    return rotation


def document_errors(
    block: QueryBlock | QueryStatistics,
    rotation: Rotation,
    regularizations: Array,
    rounding: Array,
) -> tuple[Array, Array, DominantQueries]:
    """Errors of a block's queries that are not dominant, their rounding, and the dominant queries.

    Errors and rounding are (n_lambdas,), as `rounding`, the relative error of predictions.
    """
    errors, off, dominant = np.zeros(len(regularizations)), np.zeros(len(regularizations)), []
    query = 0
    for rows, ptr in centred_rows(block):
        rotated = rotated_rows(rows[:, :-1], rotation)
        all_squares, all_margins = np.zeros((2, len(ptr) - 1, len(regularizations)))
        for place, (start, stop) in enumerate(pairwise(ptr.tolist())):
            residuals, margins = lqo_residuals(
                rotated[start:stop], rows[start:stop, -1], rotation, regularizations
            )
            kept = margins >= LEAST_MARGIN
            all_squares[place, kept] = np.square(residuals[kept]).sum(axis=1)
            all_margins[place] = margins
            errors += all_squares[place]
            if not kept.all():
                own = TriangularFactor(triangle_of(rows[start:stop]))
                dominant.append(DominantQuery(block.query_ids[query].as_py(), own, ~kept))
            query += 1
        # At once for all queries: one by one, these few numbers took 4 % of the fit.
        kept = all_margins >= LEAST_MARGIN
        norms, margins = np.sqrt(all_squares), np.where(kept, all_margins, 1.0)
        own_off = residual_rounding(norms, margins, rotation, rounding)
        off += np.where(kept, error_rounding(all_squares, own_off), 0.0).sum(axis=0)
    return errors, off, DominantQueries(dominant)
