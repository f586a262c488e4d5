"""A small job of every kind that runs on a cluster."""

from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import dranking as dr
from dranking.bilinear.texts.make_collection import collection
from dranking.bilinear.texts.preferences import same_class
from dranking.data.blocks import block_boundaries
from dranking.ingestion.dask_collections import as_dataset


class Job(NamedTuple):
    """A job.

    `run(executor, checkpoint=None)` returns the result as bytes. `task` is the name of tasks that
    the job submits from beginning to end, at least eight times. `resumes` says whether the job
    takes a checkpoint.
    """

    run: Any
    task: str
    resumes: bool = False


def partitions(frame):
    """A dask DataFrame of 12 partitions."""
    import dask.dataframe as dd

    return dd.from_pandas(frame, npartitions=12, sort=False)


def small_blocks():
    """A context in which collections become blocks of at most 40 documents."""
    return mock.patch(
        "dranking.ingestion.collections.block_plan.block_boundaries",
        lambda sizes: block_boundaries(sizes, 40),
    )


def jobs(data):
    """All jobs by name, on a stored data set."""
    model = dr.RankRLS(2.0).fit(data).to_model()
    rng = np.random.default_rng(0)
    vectors = rng.random((60, 12)) * (rng.random((60, 12)) < 0.4)
    words = [f"w{i}" for i in range(12)]
    labels = rng.integers(3, size=60)
    vectors[np.arange(60), labels] += 2.0
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    topics = collection(vectors, labels=labels, words=words)

    def fitted(make, *arguments):
        def run(executor, checkpoint=None):
            options = {} if checkpoint is None else {"checkpoint": checkpoint}
            ranker = make(**options).fit(*(arguments or (data,)), executor=executor)
            if hasattr(ranker, "weights_"):
                return ranker.weights_.toarray().tobytes()
            return ranker.coef_.tobytes()

        return run

    def evaluated(executor, checkpoint=None):
        per_query = dr.evaluate(model, data, ["map", "ndcg@5"], executor=executor).per_query
        return b"".join(np.asarray(column).tobytes() for column in per_query.values.values())

    frame = dr.to_dask_dataframe(data).compute().reset_index(drop=True)

    def collected(rows):
        """Make blocks of a dask DataFrame where its partitions lie."""

        def run(executor, checkpoint=None):
            with small_blocks():
                found = as_dataset(partitions(rows), executor=executor)
            blocks = [found.block(number) for number in range(found.n_blocks)]
            return b"".join(b.features.tobytes() + b.relevance.tobytes() for b in blocks)

        return run

    def selected(executor, checkpoint=None):
        """Select features on a dask DataFrame."""
        with small_blocks():
            ranker = dr.GreedyRankRLS(6, 2.0, passes=dr.Passes(prefetch=1)).fit(
                partitions(frame), "relevance", qid="qid", executor=executor
            )
        return ranker.coef_.tobytes()

    epochs = {"n_epochs": 4, "steps_per_epoch": 2_000, "n_shards": 3}
    bilinear = {"n_steps": 800, "n_epochs": 4, "n_shards": 2}
    return {
        "greedy": Job(
            fitted(lambda **o: dr.GreedyRankRLS(6, 2.0, passes=dr.Passes(prefetch=1), **o)),
            "update",
            True,
        ),
        "ranksvm": Job(fitted(lambda: dr.RankSVM(0.01)), "curvature"),
        "spd": Job(fitted(lambda **o: dr.SPD(0.01, sgd=epochs, **o)), "spd-epoch", True),
        "lcra": Job(fitted(lambda **o: dr.LCRA(0.01, sgd=epochs, **o)), "lcra-epoch", True),
        "bilinear": Job(
            fitted(
                lambda **o: dr.BilinearRanker(1e-4, **bilinear, **o), topics, same_class(topics)
            ),
            "bilinear-epoch",
            True,
        ),
        "max-margin": Job(
            fitted(lambda **o: dr.MaxMarginRanker(0.1, "ap", tol=1e-2, **o)), "hinge", True
        ),
        "evaluate": Job(evaluated, "evaluate"),
        "collection": Job(collected(frame), "block"),
        "scattered": Job(collected(frame.sample(frac=1, random_state=1)), "pick"),
        "collection-greedy": Job(selected, "update"),
    }
