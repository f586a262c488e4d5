"""Every kind of job that runs on a cluster, small: what it is given, and what must be the same."""

from typing import Any, NamedTuple

import numpy as np

import dranking as dr
from dranking.data.collection import collection
from dranking.data.preferences import same_class


class Job(NamedTuple):
    """A job.

    `run(executor, checkpoint=None)` gives its result as bytes that can be compared; `task` is
    the name of tasks that it submits all along.
    """

    run: Any
    task: str


def jobs(data):
    """All of them, by name, on a stored data set."""
    model = dr.RankRLS(2.0).fit(data).to_model()
    rng = np.random.default_rng(0)
    vectors = rng.random((60, 12)) * (rng.random((60, 12)) < 0.4)
    words = [f"w{i}" for i in range(12)]
    topics = collection(vectors, labels=rng.integers(3, size=60), words=words)

    def fitted(make, *arguments):
        def run(executor, checkpoint=None):
            options = {} if checkpoint is None else {"checkpoint": checkpoint}
            ranker = make(**options).fit(*(arguments or (data,)), executor=executor)
            if hasattr(ranker, "weights_"):
                return ranker.weights_.toarray().tobytes()
            return ranker.coef_.tobytes()

        return run

    def evaluated(executor):
        per_query = dr.evaluate(model, data, ["map", "ndcg@5"], executor=executor).per_query
        return b"".join(np.asarray(column).tobytes() for column in per_query.values.values())

    epochs = {"n_epochs": 4, "steps_per_epoch": 2_000, "shards": 3}
    bilinear = {"n_steps": 300, "n_epochs": 4, "shards": 2}
    return {
        "greedy": Job(fitted(lambda **o: dr.GreedyRankRLS(6, 2.0, prefetch=2, **o)), "update"),
        "ranksvm": Job(fitted(lambda: dr.RankSVM(0.01)), "curvature"),
        "spd": Job(fitted(lambda **o: dr.SPD(0.01, **epochs, **o)), "spd-epoch"),
        "lcra": Job(fitted(lambda **o: dr.LCRA(0.01, **epochs, **o)), "lcra-epoch"),
        "bilinear": Job(
            fitted(
                lambda **o: dr.BilinearRanker(1e-4, **bilinear, **o), topics, same_class(topics)
            ),
            "bilinear-epoch",
        ),
        "max-margin": Job(fitted(lambda: dr.MaxMarginRanker(0.1, "ap", tol=1e-2)), "hinge"),
        "evaluate": Job(evaluated, "evaluate"),
    }
