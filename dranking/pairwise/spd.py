"""SPD: stochastic pairwise descent, Pegasos steps on sampled pairs of documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.column_constants import NullPolicy, Shift, ValueRule
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.models.linear.fit_arguments import as_elsewhere
from dranking.pairwise.epochs import AveragedResult, ShardEpoch
from dranking.pairwise.kernels.sgd import Iterate, Steps, pair_steps
from dranking.pairwise.mixing import Segment
from dranking.pairwise.pair_blocks import PairProblem, labelled_block
from dranking.pairwise.stochastic_ranker import Loss, StochasticRanker

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class SPD(StochasticRanker):
    """Linear ranker trained on one drawn pair of documents a step.

    Minimises the mean, over all pairs of documents of one query with different relevance, of a
    loss of the difference of their scores, plus ``lambda / 2 |w|^2``: the objective of `RankSVM`,
    at a cost per step that does not depend on the size of the data. Step t is a gradient step on
    one pair, of length ``1 / (lambda (t + t0))`` where ``t0 = 1 / (lambda eta0)``.

    Parameters
    ----------
    regularization
        lambda > 0, beside the mean loss of a pair.
    loss
        "hinge", "squared-hinge", "logistic" or "squared" (half the square).
    projection
        Project the weights onto a ball that holds the minimum.
    pairs
        The pairs that steps draw, and their labels: `Pairs`, or a mapping of its parameters.
    sgd
        Number and length of the steps, and shards: `SGD`, or a mapping of its
        parameters. By default the first step has the length ``1 / max |p|^2`` over 1,000 drawn
        pairs (half of it for the squared hinge).
    warm_start
        `fit` continues from the weights and the number of steps at the end of the last fit.
    random_state
        Seed of all random draws.
    normalize
        Scaling of the features that `fit` fits and the model carries out, as in `GreedyRankRLS`;
        `partial_fit` and the validation data take the scaling that the first data fitted.
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
    >>> from dranking.pairwise.spd import SPD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3)).astype(np.float32)
    >>> y = np.digitize(X[:, 2], [-0.5, 0.5])
    >>> SPD(regularization=0.01).fit(X, y, qid=np.repeat(np.arange(10), 6)).coef_.argmax()
    np.int64(2)
    """

    regularization: float = 1e-4
    loss: Loss = "hinge"
    _: KW_ONLY
    projection: bool = False

    @as_elsewhere
    def fit(  # noqa: PLR0913 - one call with keywords
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        validation: Any = None,
        null: NullPolicy = "error",
        null_indicator: bool = False,
        shift: Shift = "none",
        executor: Any = None,
    ) -> SPD:
        """Train for `sgd.n_epochs` epochs.

        Parameters
        ----------
        X, y, qid, query_weights, null, null_indicator, shift, executor
            As in `GreedyRankRLS.fit`. A query's weight multiplies the probability of its pairs.
        validation
            Judged data, as X alone, on which the model is evaluated after each epoch; or
            `Validation`, which says by which metric, and when the training ends early.

        Raises
        ------
        UsageError
            If a parameter is out of range, or the steps diverge.
        DataError
            If the data is wrong, or has no pair.
        """
        executor = get_executor(executor)
        rule = ValueRule.of(null, null_indicator, shift)
        dataset = self._training_data(X, y, qid, query_weights, rule, executor)
        return self._fit_all_epochs(self._problem(dataset, executor), executor, validation)

    def partial_fit(  # noqa: PLR0913 - one call with keywords
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        validation: Any = None,
        null: NullPolicy = "error",
        null_indicator: bool = False,
        shift: Shift = "none",
        executor: Any = None,
    ) -> SPD:
        """Train for one epoch on more data, from the end of the last training; see `fit`.

        The model is the mean over iterates of this call alone. No checkpoint is written. Missing
        values take the values of the first data, and its origins are subtracted; `null` permits
        missing values where that data lacks none.
        """
        executor = get_executor(executor)
        rule = ValueRule.of(null, null_indicator, shift)
        dataset = self._more_data(X, y, qid, query_weights, rule, executor)
        return self._fit_one_epoch(self._problem(dataset, executor), executor, validation)

    def _problem(self, dataset: Dataset, executor: Executor) -> PairProblem:
        self._check(dataset)
        prepare = partial(labelled_block, rule=self._pairs.rule)
        source, squared_label = self._labelled_source(dataset, executor, prepare)
        n = dataset.n_features
        view_ptr = np.array([0, n])
        return PairProblem(
            dataset, [source], np.arange(n), view_ptr, squared_label, self._pairs.rule
        )

    def _radius(self, problem: PairProblem) -> float:
        if not self.projection:
            return np.inf
        # lambda |w|^2 = E[-loss'(f) f] at the minimum, which is at most E of the maximum over f.
        bound = {"squared": problem.squared_label / 4, "squared-hinge": 0.5}.get(self.loss, 1.0)
        return float(np.sqrt(bound / self.regularization))

    def _shard_epoch(self, problem: PairProblem, steps: Steps) -> ShardEpoch:
        return PairEpoch(steps, self._pairs.label, self.random_state)


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
