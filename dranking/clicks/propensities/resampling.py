"""The Poisson bootstrap over queries, whose draws follow from the ids of the queries.

In a replicate a query counts as often as a Poisson variable of mean 1 says: over many queries, this
is the bootstrap that draws queries with replacement. The variable is a function of seed, replicate
and query id. So buckets need not know of each other; and where propensities and values come from
clicks on the same queries, both count a query equally often, which carries their dependence along.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special

from dranking.data.regrouping.query_lines import hash_ids

Array = NDArray[np.float64]
Keys = NDArray[np.uint64]

_AT_MOST = special.pdtr(np.arange(20), 1.0)
"""P(X <= x) of a Poisson variable of mean 1; above 19 it is 1 - 2e-19."""


def times_drawn(keys: Keys, bootstrap: tuple[int, int]) -> Iterator[Array]:
    """Yield the number of times that each query counts, replicate by replicate.

    Parameters
    ----------
    keys
        (n_queries,) from `dranking.clicks.hashes.query_keys`.
    bootstrap
        Number of replicates, and seed.

    Yields
    ------
    (n_queries,) float64 whole numbers.
    """
    n_replicates, seed = bootstrap
    words = pa.array(keys)
    for key in np.random.default_rng(seed).integers(0, 2**63, n_replicates).tolist():
        uniform = (hash_ids(words, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        yield np.searchsorted(_AT_MOST, uniform, side="right").astype(np.float64)
