"""Run a greedy learner of RLScore in a Python that has RLScore; import nothing of this project.

    python rlscore_peer.py {nfold,loo} DATA.npz K

DATA.npz holds X, y and query_ptr. `nfold` runs GreedyNFoldRLS with queries as folds on
query-centred data, which has the criterion of greedy RankRLS. `loo` runs GreedyRLS, whose
leave-one-out criterion answers an easier question. The program prints {"seconds": ..., "selected":
[...]}.
"""

import json
import sys
import time
from itertools import pairwise

import numpy as np


def centred(values, query_ptr):
    """Float64 values (n_documents, ...) minus their means within each query."""
    values = values.astype(np.float64)
    sizes = np.diff(query_ptr)
    means = np.add.reduceat(values, query_ptr[:-1], axis=0) / sizes.reshape(
        -1, *[1] * (values.ndim - 1)
    )
    return values - np.repeat(means, sizes, axis=0)


def nfold(X, y, query_ptr, k):
    """Select with GreedyNFoldRLS, which takes matrices."""
    from rlscore.learner.greedy_nfold_rls import GreedyNFoldRLS

    queries = [list(range(a, b)) for a, b in pairwise(query_ptr)]
    return GreedyNFoldRLS(np.asmatrix(X), np.asmatrix(y).T, k, 1.0, bias=0.0, qids=queries)


def loo(X, y, query_ptr, k):
    """Select with GreedyRLS."""
    from rlscore.learner import GreedyRLS

    return GreedyRLS(X, y, k, 1.0)


def main(learner, path, k):
    """Select and print."""
    np.mat = np.asmatrix  # RLScore calls np.mat, which NumPy 2 removed
    data = np.load(path, allow_pickle=False)
    query_ptr = data["query_ptr"]
    X, y = centred(data["X"], query_ptr), centred(data["y"], query_ptr)
    select = {"nfold": nfold, "loo": loo}[learner]
    start = time.perf_counter()
    found = select(X, y, query_ptr, int(k))
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "selected": [int(i) for i in found.selected]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
