"""SPD: stochastic pairwise descent, Pegasos steps on sampled pairs of documents."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.dask_collections import as_dataset
from dranking.engine.executor import Executor, get_executor
from dranking.engine.mixing import Segment
from dranking.files.places import AnyPlace
from dranking.kernels.pairwise.sgd import Iterate, Steps, pair_steps
from dranking.metrics.conventions import DEFAULT_CONVENTION
from dranking.rankers.pairwise.epochs import AveragedResult, ShardEpoch
from dranking.rankers.pairwise.pair_blocks import Label, PairProblem, labelled_block
from dranking.rankers.pairwise.stochastic_ranker import Average, Loss, StochasticRanker
from dranking.sampling.pairs import Balance, Positions

Array = NDArray[np.float64]


class SPD(StochasticRanker):
    """Linear ranker trained on one drawn pair of documents a step.

    Minimises the mean, over all pairs of documents of one query with different relevance, of a
    loss of the difference of their scores, plus ``lambda / 2 |w|^2``: the objective of `RankSVM`,
    at a cost per step that does not depend on the size of the data. Step t is a gradient step on
    one pair, of length ``1 / (lambda (t + t0))`` where ``t0 = 1 / (lambda eta0)``.

    Parameters
    ----------
    regularization
        lambda > 0.
    loss
        "hinge", "squared-hinge", "logistic" or "squared" (half the square).
    label
        Label of a pair: "sign" means 1 for every pair, "difference" the difference of relevance.
        With "difference" a hinge asks for a *smaller* margin, 1 / difference, of pairs that differ
        more.
    eta0
        First step length. None means ``1 / max |p|^2`` over 1,000 drawn pairs (half of it for
        the squared hinge); infinity means pure Pegasos, whose first steps are long.
    projection
        Project the weights onto a ball that holds the minimum.
    average
        The model is the mean of the iterates of the "second-half" of the steps of a call, the mean
        of "all" iterates, or with "none" the last iterate.
    n_epochs
        Number of epochs of `fit`.
    steps_per_epoch
        Steps of an epoch; None means the number of labelled documents, and at least 100,000.
    sampling
        "pairs": all pairs of the data are equally likely; "queries": all queries are equally
        likely, and all pairs within a query.
    position_weights
        "equal", or "dcg" to draw a pair in proportion to the discount 1 / log2(1 + rank) of its
        better document in the ideal ranking.
    n_shards
        Parts of the data that are trained on their own in each epoch. After the epoch their weights
        are averaged by the shards' shares of the pairs (iterative parameter mixing). At most
        `n_shards` workers are busy. The result depends on `n_shards`, not on the workers.
    patience
        The training ends after so many epochs without a better `metric` on the validation data, and
        keeps the best model. None means all epochs and the last model.
    metric, convention
        Metric and convention of the validation, as in `dranking.evaluate`.
    warm_start
        `fit` continues from the weights and the number of steps at the end of the last fit.
    random_state
        Seed of all random draws.
    memory_limit
        Memory for blocks read from storage, in bytes or as text such as "8GB"; None means most of
        the memory of the machine or the workers. Blocks that do not fit are read in every epoch,
        each while the block before is in use.
    checkpoint
        Directory that stores the training after each epoch of `fit`. A fit that finds a stored
        training resumes it, to the identical result.

    References
    ----------
    Sculley: Large scale learning to rank, 2009. Shalev-Shwartz, Singer, Srebro: Pegasos, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from dranking.rankers.pairwise.spd import SPD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3)).astype(np.float32)
    >>> y = np.digitize(X[:, 2], [-0.5, 0.5])
    >>> SPD(regularization=0.01).fit(X, y, qid=np.repeat(np.arange(10), 6)).coef_.argmax()
    np.int64(2)
    """

    def __init__(  # noqa: PLR0913 - scikit-learn's way: one argument per parameter
        self,
        regularization: float = 1e-4,
        loss: Loss = "hinge",
        *,
        label: Label = "sign",
        eta0: float | None = None,
        projection: bool = False,
        average: Average = "second-half",
        n_epochs: int = 10,
        steps_per_epoch: int | None = None,
        sampling: Balance = "pairs",
        position_weights: Positions = "equal",
        n_shards: int = 1,
        patience: int | None = None,
        metric: str = "ndcg@10",
        convention: str = DEFAULT_CONVENTION,
        warm_start: bool = False,
        random_state: int = 0,
        memory_limit: int | str | None = None,
        checkpoint: AnyPlace | None = None,
    ) -> None:
        self.regularization = regularization
        self.loss = loss
        self.label = label
        self.eta0 = eta0
        self.projection = projection
        self.average = average
        self.n_epochs = n_epochs
        self.steps_per_epoch = steps_per_epoch
        self.sampling = sampling
        self.position_weights = position_weights
        self.n_shards = n_shards
        self.patience = patience
        self.metric = metric
        self.convention = convention
        self.warm_start = warm_start
        self.random_state = random_state
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        validation: Dataset | None = None,
        executor: Any = None,
    ) -> SPD:
        """Train for `n_epochs`.

        Parameters
        ----------
        X, y, qid, query_weights, executor
            As in `GreedyRankRLS.fit`. A query's weight multiplies the probability of its pairs.
        validation
            Judged data on which the model is evaluated after each epoch.

        Raises
        ------
        UsageError
            If a parameter is out of range, or the steps diverge.
        DataError
            If the data is wrong, or has no pair.
        """
        dataset = as_dataset(X, y, qid=qid, query_weights=query_weights, executor=executor)
        executor = get_executor(executor)
        return self._fit(self._problem(dataset, executor), executor, validation)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        validation: Dataset | None = None,
        executor: Any = None,
    ) -> SPD:
        """Train for one epoch on more data, from the end of the last training; see `fit`.

        The model is the mean over iterates of this call alone. No checkpoint is written.
        """
        dataset = as_dataset(X, y, qid=qid, query_weights=query_weights, executor=executor)
        executor = get_executor(executor)
        return self._fit_on(self._problem(dataset, executor), executor, validation)

    def _problem(self, dataset: Dataset, executor: Executor) -> PairProblem:
        self._check(dataset)
        prepare = partial(labelled_block, rule=self._rule)
        source, squared_label = self._labelled_source(dataset, executor, prepare)
        n = dataset.n_features
        return PairProblem(dataset, [source], np.arange(n), np.array([0, n]), squared_label)

    def _radius(self, problem: PairProblem) -> float:
        if not self.projection:
            return np.inf
        # lambda |w|^2 = E[-loss'(f) f] at the minimum, which is at most E of the maximum over f.
        bound = {"squared": problem.squared_label / 4, "squared-hinge": 0.5}.get(self.loss, 1.0)
        return float(np.sqrt(bound / self.regularization))

    def _shard_epoch(self, problem: PairProblem, steps: Steps) -> ShardEpoch:
        return PairEpoch(steps, self.label, self.random_state)


class PairEpoch(ShardEpoch):
    """The epoch of SPD on one shard: each step draws one pair."""

    def __call__(
        self, segments: Iterator[Segment], weights: Array, t: int, epoch: int
    ) -> AveragedResult:
        """Take steps t + 1, t + 2, ... on the blocks of the shard, from the weights given."""
        iterate = Iterate(weights.copy(), np.zeros_like(weights))
        first, losses = t, 0.0
        for [labelled], n_steps in self._portions(segments, epoch, pairs_per_step=1):
            pairs = labelled.draw(n_steps, self.label)
            losses += pair_steps(labelled.rows, pairs, self.steps, t, iterate)
            t += n_steps
        return self._result(iterate, losses, first, t)
