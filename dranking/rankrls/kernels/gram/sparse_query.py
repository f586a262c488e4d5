"""One held-out query of CSR features: only the selected features that occur in it matter.

S is the ordered list of the t selected features, and P the p <= t features of S that vary within
the query. The other features of S have only zeros in A_q and b_q. So the centred X_q[:, P] and
matrices of p x p numbers describe the query.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.rankrls.kernels.gram.dense import Queries
from dranking.rankrls.kernels.gram.sparse import Csr, shift_of

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

NOT_ASKED = -1
"""Role of a feature that is neither a candidate nor selected."""


class Fit(NamedTuple):
    """The selected features, and their part of the sums over all queries.

    Attributes
    ----------
    role
        (n_features,) position of a candidate among the candidates, -2 - j for the j-th selected
        feature, or `NOT_ASKED`.
    selected
        (t,) S.
    gram
        (t, t) A[S, S]; row j belongs to the j-th selected feature.
    products
        (t,) b[S].
    regularization
        lambda.
    """

    role: Indices
    selected: Indices
    gram: Array
    products: Array
    regularization: float


class Entries(NamedTuple):
    """The nonzeros of one query, feature by feature, without features that are `NOT_ASKED`.

    Attributes
    ----------
    next
        (n_features,) workspace of sorting: -1 for features without a role, else 0 between queries.
    features, roles
        (n_present,) the features that occur, in no particular order, and their roles.
    ptr
        (n_present + 1,) offsets of the entries of these features.
    means, shifts, squares
        (n_present,) mean of each feature over all documents of the query; what is subtracted from
        its entries in products (`dranking.rankrls.kernels.gram.sparse`); and its centred sum of
        squares, which is exactly zero for a constant feature.
    documents, values
        (n_entries,) document and value of each entry. Within a feature, entries are in the order of
        documents, which are counted from the first document of the query.
    """

    next: Indices
    features: Indices
    roles: Indices
    ptr: Indices
    means: Array
    shifts: Array
    squares: Array
    documents: NDArray[np.int32]
    values: NDArray[np.float32]


class HeldOut(NamedTuple):
    """Arrays for one query, used again for the next query.

    Attributes
    ----------
    entries
        Nonzeros of the query.
    members
        (p,) positions of P in S, ascending.
    local
        (t,) position of each feature of S among the features that occur; -1 if the feature does not
        vary.
    columns
        (p + 1, n_documents) X_q[:, P] and y_q, centred.
    rest
        (p + 1,) sums of these columns, which only rounding makes different from zero.
    products
        (p + 1, n_present) A_q[P, i] and b_q[i] of the features that occur.
    gram
        (p, p) G = A_q[P, P].
    inverse
        (p, p) N = M_q[S, S]^-1 at P.
    factor
        (t (t + 1) / 2, 1) packed Cholesky factor of M_q[S, S].
    weights
        (t, 1) weights of S, fitted to all other queries.
    pull
        (p,) X_q[:, P]' p_q, where p_q is the residual of the labels while the query is held out.
    """

    entries: Entries
    members: Indices
    local: Indices
    columns: Array
    rest: Array
    products: Array
    gram: Array
    inverse: Array
    factor: Array
    weights: Array
    pull: Array


class Found(NamedTuple):
    """Number of features that occur in a query, number of features of S that vary, and y_q.y_q."""

    n_present: int
    n_members: int
    label_norm: float


@kernel
def arrays_for_queries(x: Csr, queries: Queries, fit: Fit) -> HeldOut:
    """Arrays that are large enough for each of these queries."""
    n, t = len(fit.role), len(fit.selected)
    n_documents, n_values = 0, 0
    for q in range(len(queries.ptr) - 1):
        start, end = queries.ptr[q], queries.ptr[q + 1]
        n_documents = max(n_documents, end - start)
        n_values = max(n_values, x.indptr[end] - x.indptr[start])
    most = min(n, n_values)
    following = np.zeros(n, dtype=np.int64)
    for i in range(n):
        if fit.role[i] == NOT_ASKED:
            following[i] = -1
    entries = Entries(
        following,
        np.empty(most, dtype=np.int64),
        np.empty(most, dtype=np.int64),
        np.zeros(most + 1, dtype=np.int64),
        np.empty(most),
        np.empty(most),
        np.empty(most),
        np.empty(n_values, dtype=np.int32),
        np.empty(n_values, dtype=np.float32),
    )
    return HeldOut(
        entries,
        np.empty(t, dtype=np.int64),
        np.empty(t, dtype=np.int64),
        np.empty((t + 1, n_documents)),
        np.empty(t + 1),
        np.empty((t + 1, most)),
        np.empty((t, t)),
        np.empty((t, t)),
        np.empty((t * (t + 1) // 2, 1)),
        np.empty((t, 1)),
        np.empty(t),
    )


@kernel
def sort_entries(x: Csr, start: int, end: int, entries: Entries) -> int:
    """Fill features, ptr, documents and values; return the number of features that occur."""
    following, features, ptr = entries.next, entries.features, entries.ptr
    n_present = 0
    for e in range(x.indptr[start], x.indptr[end]):
        i = x.indices[e]
        count = following[i]
        if count >= 0:
            if count == 0:
                features[n_present] = i
                n_present += 1
            following[i] = count + 1
    for o in range(n_present):
        i = features[o]
        ptr[o + 1] = ptr[o] + following[i]
        following[i] = ptr[o]
    for d in range(start, end):
        for e in range(x.indptr[d], x.indptr[d + 1]):
            i = x.indices[e]
            place = following[i]
            if place >= 0:
                entries.documents[place] = d - start
                entries.values[place] = x.data[e]
                following[i] = place + 1
    for o in range(n_present):
        following[features[o]] = 0
    return n_present


@kernel
def find_members(n_present: int, size: int, fit: Fit, query: HeldOut) -> int:
    """Fill roles, means, squares, local and members; return the number of members."""
    entries, local, p = query.entries, query.local, 0
    local[:] = -1
    for o in range(n_present):
        values = entries.values[entries.ptr[o] : entries.ptr[o + 1]]
        # Not 0.0: where Numba is off, adding a float32 to a Python float gives a float32.
        mean, squares = np.float64(0.0), np.float64(0.0)
        for value in values:
            mean += value
        mean /= size
        for value in values:
            difference = value - mean
            squares += difference * difference
        squares += (size - len(values)) * mean * mean
        role = fit.role[entries.features[o]]
        if role < NOT_ASKED and squares > 0.0:
            local[-2 - role] = o
        entries.means[o], entries.squares[o], entries.roles[o] = mean, squares, role
        entries.shifts[o] = shift_of(mean, len(values), size)
    for j in range(len(local)):
        if local[j] >= 0:
            query.members[p] = j
            p += 1
    return p


@kernel
def centre_labels(relevance: Array, start: int, end: int, labels: Array) -> tuple[float, float]:
    """Overwrite `labels` with the centred relevance of documents start to end.

    Returns their squared norm, and their sum, which would be zero without the rounding of the mean.
    The norm counts from the exact mean: labels far from zero may differ by less than this rounding.
    """
    centre, norm, rest = 0.0, 0.0, 0.0
    for d in range(start, end):
        centre += relevance[d]
    centre /= end - start
    for d in range(end - start):
        label = relevance[start + d] - centre
        labels[d] = label
        norm += label * label
        rest += label
    return max(norm - rest * rest / (end - start), 0.0), rest


@kernel
def centre_members(p: int, size: int, query: HeldOut) -> None:
    """Fill the columns of the members, and the sums of these columns in `rest`."""
    entries = query.entries
    for a in range(p):
        o, column, rest = query.local[query.members[a]], query.columns[a], 0.0
        mean = entries.means[o]
        for d in range(size):
            column[d] = -mean
        for e in range(entries.ptr[o], entries.ptr[o + 1]):
            column[entries.documents[e]] = entries.values[e] - mean
        for d in range(size):
            rest += column[d]
        query.rest[a] = rest


@kernel
def multiply(entries: Entries, column: Array, rest: float, weight: float, products: Array) -> None:
    """Overwrite `products` (n_present,) with products of a centred column and the features."""
    ptr, documents, values, means = entries.ptr, entries.documents, entries.values, entries.means
    for o in range(len(products)):
        total, shift = 0.0, entries.shifts[o]
        for e in range(ptr[o], ptr[o + 1]):
            total += column[documents[e]] * (values[e] - shift)
        # `rest` is the sum that rounding left in the column. Subtracting `rest` times the rest of
        # the mean centres the feature too.
        products[o] = weight * (total - rest * (means[o] - shift))


@kernel
def enter_query(
    x: Csr, relevance: Array, queries: Queries, q: int, fit: Fit, query: HeldOut
) -> Found:
    """Fill the attributes up to `products` from the nonzeros of query q."""
    start, end, weight = queries.ptr[q], queries.ptr[q + 1], queries.weights[q]
    n_present = sort_entries(x, start, end, query.entries)
    p = find_members(n_present, end - start, fit, query)
    centre_members(p, end - start, query)
    norm, query.rest[p] = centre_labels(relevance, start, end, query.columns[p])
    for a in range(p + 1):
        products = query.products[a, :n_present]
        multiply(query.entries, query.columns[a], query.rest[a], weight, products)
    return Found(n_present, p, weight * norm)
