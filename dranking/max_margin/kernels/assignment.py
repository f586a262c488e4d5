"""Linear assignment with costs that are two outer products, never listed as a matrix.

Rows i have a score and a gain, columns k a slope and a discount; row i costs
``gains[i] discounts[k] - scores[i] slopes[k]`` at column k, and slopes descend. If all gains were
equal, the optimum would be the order of descending scores. So the rows of the commonest gain are
placed by score, with dual variables that prove the placement optimal; the m other rows follow one
by one by shortest augmenting paths. O(m n^2), and less if rows end near the columns to which their
scores alone would assign them.

Jonker and Volgenant: A shortest augmenting path algorithm for dense and sparse linear assignment
problems, 1987. Crouse: On implementing 2D rectangular assignment algorithms, 2016.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel, part
from dranking.kernels.sorting import descending

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Costs(NamedTuple):
    """Costs of n rows at n columns.

    Attributes
    ----------
    scores, gains
        (n,) factors of the rows.
    slopes, discounts
        (n,) factors of the columns; slopes descend.
    """

    scores: Array
    gains: Array
    slopes: Array
    discounts: Array


class Duals(NamedTuple):
    """Dual variables, which prove an assignment of some rows optimal.

    No cost is below ``rows[i] + columns[k]``, and the cost of a placed row at its column equals
    that sum.

    Attributes
    ----------
    rows, columns
        (n,) each.
    """

    rows: Array
    columns: Array


@part
def assign(costs: Costs) -> Ints:
    """(n,) column of each row, all different, with the least sum of costs; O(n) memory."""
    n = len(costs.scores)
    # A constant added to all gains changes every assignment's sum by the same amount.
    shift, gains = commonest(costs.gains), np.empty(n)
    column_of, row_at = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        gains[i], column_of[i], row_at[i] = costs.gains[i] - shift, -1, -1
    shifted = Costs(costs.scores, gains, costs.slopes, costs.discounts)
    duals = Duals(np.zeros(n), np.zeros(n))
    place_by_score(shifted, column_of, row_at, duals)
    for row in range(n):
        if gains[row] != 0.0:
            augment(shifted, row, column_of, row_at, duals)
    return column_of


@part
def commonest(values: Array) -> float:
    """The most frequent value; if several values are equally frequent, the smallest of them."""
    order = descending(values)
    best, n_best, n_own = values[order[0]], 0, 0
    for k in range(len(order)):
        value = values[order[k]]
        n_own = n_own + 1 if k > 0 and value == values[order[k - 1]] else 1
        if n_own >= n_best:
            best, n_best = value, n_own
    return float(best)


@part
def place_by_score(costs: Costs, column_of: Ints, row_at: Ints, duals: Duals) -> None:
    """Place each row of gain 0 at its position in the order of all scores.

    Writes the columns, the rows and the duals of these rows, and the duals of all columns.
    """
    scores, slopes = costs.scores, costs.slopes
    n = len(scores)
    order = descending(scores)
    for k in range(1, n):
        # Any price between the two rows' costs of changing to the other column is optimal.
        middle = 0.5 * (scores[order[k - 1]] + scores[order[k]])
        duals.columns[k] = duals.columns[k - 1] + middle * (slopes[k - 1] - slopes[k])
    for k in range(n):
        row = order[k]
        if costs.gains[row] == 0.0:
            column_of[row], row_at[k] = k, row
            duals.rows[row] = -scores[row] * slopes[k] - duals.columns[k]


@kernel
def augment(costs: Costs, source: int, column_of: Ints, row_at: Ints, duals: Duals) -> None:
    """Place the row `source`, and move placed rows so that the sum of costs stays least.

    The moves follow a shortest path from the row to a free column, in costs less duals. Updates
    `column_of`, `row_at` and `duals`.
    """
    n = len(column_of)
    left = np.empty(n, dtype=np.int64)  # columns whose distance is not final: left[:n_left]
    distances, came_from = np.empty(n), np.empty(n, dtype=np.int64)
    for k in range(n):
        left[k], distances[k], came_from[k] = k, np.inf, source
    row, length, n_left = source, 0.0, n
    while True:
        best = relax(costs, duals, row, length, left[:n_left], distances, came_from)
        column = left[best]
        length = distances[column]
        n_left -= 1
        left[best], left[n_left] = left[n_left], column
        if row_at[column] < 0:
            break
        row = row_at[column]
    duals.rows[source] += length
    for k in range(n_left + 1, n):
        final = left[k]
        shift = length - distances[final]
        duals.rows[row_at[final]] += shift
        duals.columns[final] -= shift
    while True:
        row = came_from[column]
        row_at[column] = row
        column, column_of[row] = column_of[row], column
        if row == source:
            return


@part
def relax(
    costs: Costs,
    duals: Duals,
    row: int,
    length: float,
    left: Ints,
    distances: Array,
    came_from: Ints,
) -> int:
    """Shorten the paths to the columns in `left` through a row; return the nearest one's index."""
    score, gain, base = costs.scores[row], costs.gains[row], length - duals.rows[row]
    best, nearest = 0, np.inf
    for index in range(len(left)):
        column = left[index]
        cost = gain * costs.discounts[column] - score * costs.slopes[column]
        distance = base + cost - duals.columns[column]
        if distance < distances[column]:
            distances[column], came_from[column] = distance, row
        if distances[column] < nearest:
            best, nearest = index, distances[column]
    return best
