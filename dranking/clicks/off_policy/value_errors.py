"""Errors that the interval over queries lacks: of propensities, and by users who come back.

Let z_q be the part of query q in the error of a mean of values: its traffic times the distance of
its value from the mean, divided by all traffic. The interval over queries draws queries with their
clicks; this gives the variance of sum_q z_q if queries are independent of each other and the
propensities are known. Two errors are missing.

- *Propensities* that were estimated by a bootstrap over queries have replicates. In replicate r the
  mean moves by sum_q (t_rq - 1) z_q, where t_rq is how often it draws query q, and by the
  derivatives of the mean times the errors of the propensities in r. Propensities add the variance
  of the second term, and twice its covariance with the first term. Labels are made of the clicks on
  their own query, and are drawn with it.
- *Users* who come back with other queries make queries dependent. With z_uq, the part of z_q that
  came from user u, the pairs of parts of one user add sum_u (sum_q z_uq)^2 - sum_uq z_uq^2: the
  variance of means over two crossed ways of clustering, queries and users. Nothing is known of
  visitors without an id, and they add nothing.

References
----------
Cameron, Gelbach, Miller, Robust inference with multiway clustering, Journal of Business and
Economic Statistics 29, 2011, equation 2.13: the variance clustered by queries, plus the variance
clustered by users, less the variance clustered by both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.hashes import NO_USER
from dranking.clicks.off_policy.off_policy import QueryValues
from dranking.clicks.propensities.propensities import Curve, Propensities
from dranking.clicks.propensities.resampling import times_drawn
from dranking.clicks.rows.groups import Groups

Array = NDArray[np.float64]


def propensity_variance(values: QueryValues, end: int, propensities: Propensities) -> float:
    """The part of the variance of a mean that comes from errors of propensities; at least 0.

    Parameters
    ----------
    values
        The values of pages.
    end
        The values whose mean is meant: 0 for `QueryValues.lower`, 1 for `QueryValues.upper`.
    propensities
        The propensities from which the values were computed. Given propensities have no errors.
    """
    n_replicates = len(propensities.curves[0].a_replicates or ())
    if not n_replicates:
        return 0.0
    of_propensities = np.zeros(n_replicates)
    for curve, of_a, of_b in zip(propensities.curves, *values.slopes[end], strict=True):
        log_a, b = _errors(curve, n_replicates)
        depth = len(curve.a)
        of_propensities += log_a @ of_a[:depth] + b @ of_b[:depth]
    of_propensities /= values.traffic.sum()
    shares = _shares(values, (values.lower, values.upper)[end])
    bootstrap = (n_replicates, propensities.seed)
    of_queries = np.array([times @ shares for times in times_drawn(values.keys, bootstrap)])
    covariance = np.cov(of_propensities, of_queries)
    return max(float(covariance[0, 0] + 2.0 * covariance[0, 1]), 0.0)


def _errors(curve: Curve, n_replicates: int) -> tuple[Array, Array]:
    """(n_replicates, K) errors of log a and of b in the replicates."""
    log_a, b = np.zeros((2, n_replicates, len(curve.a)))
    if curve.a_replicates is not None:
        log_a = np.log(np.array(curve.a_replicates) / curve.a)
    if curve.b_replicates is not None:
        b = np.array(curve.b_replicates) - curve.b
    return log_a, b


def user_variance(values: QueryValues, ends: Array) -> float:
    """The part of the variance of a mean that comes from users with several queries; at least 0.

    Without counts by user, nothing is known and nothing is added. Visitors without an id
    (`NO_USER`) add nothing either, since they are not one user.

    Parameters
    ----------
    values
        The values of pages.
    ends
        (n_queries,) the values whose mean is meant: `QueryValues.lower` or `QueryValues.upper`.
    """
    known = values.users != NO_USER
    if not known.any():
        return 0.0
    total = float(values.traffic.sum())
    mean = float(values.traffic @ ends) / total
    rows = values.user_query
    parts = values.user_noise + values.user_traffic * (ends[rows] - mean)
    parts = parts[known]
    of_user = Groups([values.users[known]]).sum(parts)
    between = float(of_user @ of_user - parts @ parts) / total**2
    return max(between, 0.0)


def _shares(values: QueryValues, ends: Array) -> Array:
    """(n_queries,) z_q."""
    total = values.traffic.sum()
    shares: Array = values.traffic * (ends - values.traffic @ ends / total) / total
    return shares
