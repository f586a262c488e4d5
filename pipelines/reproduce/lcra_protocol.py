"""What the studies of LCRA share: splits that lose labels, rankers tuned by folds, paired tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.data.dataset import Dataset
from dranking.data.open import open_dataset
from dranking.data.scaling import scaled
from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError
from dranking.metrics.significance import paired_t_test
from dranking.tuning.families import ModelName
from dranking.tuning.search import tune

TRAINING_SHARE = 0.7
N_FOLDS = 5
MEASURE = "map"
TIE = 1e-12
"""Scores closer than this are equal."""

Array = NDArray[np.float64]


class Method(NamedTuple):
    """A column of the paper's tables.

    Attributes
    ----------
    model
        What `tune` calls it.
    mus
        Strengths of the co-regularisation to choose from; None means those of the grid.
    parameters
        Of the estimator.
    """

    model: ModelName
    mus: tuple[float, ...] | None
    parameters: Mapping[str, Any]


METHODS = {
    "LCRA-1-5": Method("lcra", None, {"n_unlabelled": 5}),
    "LCRA-1-1": Method("lcra", None, {"n_unlabelled": 1}),
    "SPD": Method("spd", (), {}),
    "SPD MV": Method("lcra", (0.0,), {}),
}


class Grid(NamedTuple):
    """Values to choose from, in all combinations; None is the estimator's own eta0."""

    lambdas: tuple[float, ...]
    mus: tuple[float, ...]
    eta0s: tuple[float | None, ...]


class Judged(NamedTuple):
    """Documents of which every grade is known.

    Attributes
    ----------
    features
        (n_documents, n_features) float32.
    relevance
        (n_documents,).
    query
        (n_documents,) number of each document's query, from 0, ascending.
    """

    features: NDArray[np.float32]
    relevance: Array
    query: NDArray[np.int64]

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.query[-1]) + 1

    @property
    def has_pair(self) -> NDArray[np.bool_]:
        """(n_queries,) whether the documents of a query differ in relevance."""
        first = np.flatnonzero(np.diff(self.query, prepend=-1))
        best = np.maximum.reduceat(self.relevance, first)
        return np.asarray(best > np.minimum.reduceat(self.relevance, first))


class Split(NamedTuple):
    """Training data of which few labels are known, and test data."""

    train: Dataset
    test: Dataset


class Outcome(NamedTuple):
    """How a method did on a split.

    Attributes
    ----------
    score
        Test MAP with the setting that the folds chose.
    attainable
        That of the best setting of the grid, chosen on the test queries themselves.
    setting
        What the folds chose.
    """

    score: float
    attainable: float
    setting: dict[str, float | None]


class Difference(NamedTuple):
    """One method less another over the splits.

    Attributes
    ----------
    mean, spread
        Of the differences; the spread is their standard deviation.
    half_width
        Of the 95 % confidence interval of the mean, corrected as `p_corrected` is.
    p_paired
        Of the paired t-test over the splits. It is too small, because splits share queries.
    p_corrected
        Of the t-test corrected for that.
    wins, ties, losses
        Splits.
    """

    mean: float
    spread: float
    half_width: float
    p_paired: float
    p_corrected: float
    wins: int
    ties: int
    losses: int


def read_judged(folder: Path) -> Judged:
    """All queries of a LETOR folder, each feature scaled to [0, 1] within each query."""
    dataset = scaled(open_dataset(letor_files(folder)), "query-minmax")
    blocks = [dataset.block(index) for index in range(dataset.n_blocks)]
    sizes = np.concatenate([np.diff(block.query_ptr) for block in blocks])
    return Judged(
        np.concatenate([block.features for block in blocks]),
        np.concatenate([block.relevance for block in blocks]),
        np.repeat(np.arange(len(sizes)), sizes),
    )


def letor_files(folder: Path) -> list[Path]:
    """Files that hold each query once: parts S1 to S5, or those of Fold1, or the folder's own.

    Raises
    ------
    DataError
        If there are none.
    """
    for place, pattern in ((folder, "S[1-5].txt"), (folder / "Fold1", "*.txt"), (folder, "*.txt")):
        if files := sorted(place.glob(pattern)):
            return files
    raise DataError(
        f"{folder}: holds neither S1.txt to S5.txt, nor Fold1, nor other .txt files; name the "
        "folder of a LETOR data set, unpacked."
    )


def split_queries(
    judged: Judged,
    seed: int,
    labels: float,
    *,
    noise: float = 0.0,
    only_with_pairs: bool = False,
) -> Split:
    """A random split by queries; few training queries keep their labels.

    Parameters
    ----------
    judged
        The documents.
    seed
        Of the split.
    labels
        Share of the training queries that keep their labels; two at least, which folds need.
    noise
        Share of the labels that are replaced by that of another labelled document, any one.
    only_with_pairs
        Labels go to queries whose documents differ, as those of others teach nothing.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(judged.n_queries)
    training = order[: round(TRAINING_SHARE * len(order))]
    candidates = training[judged.has_pair[training]] if only_with_pairs else training
    labelled = candidates[: max(2, round(labels * len(training)))]

    known = np.isin(judged.query, labelled)
    relevance = np.where(known, judged.relevance, np.nan)
    changed = known & (rng.random(len(known)) < noise)
    relevance[changed] = rng.choice(judged.relevance[known], changed.sum())
    rows = np.isin(judged.query, training)
    return Split(
        from_arrays(judged.features[rows], relevance[rows], judged.query[rows]),
        from_arrays(judged.features[~rows], judged.relevance[~rows], judged.query[~rows]),
    )


def run_method(
    name: str, split: Split, grid: Grid, parameters: Mapping[str, Any], convention: str
) -> Outcome:
    """Choose the parameters of a method by folds of the labelled queries, and test."""
    method = METHODS[name]
    mus = grid.mus if method.mus is None else method.mus
    options: dict[str, Any] = {
        "model": method.model,
        "regularizations": grid.lambdas,
        "mus": mus or None,
        "eta0s": grid.eta0s,
        "parameters": {**shared_parameters(method, parameters), **method.parameters},
        "measure": MEASURE,
        "convention": convention,
    }
    n_labelled = sum(np.isfinite(y).any() for y in relevance_of_queries(split.train))
    seed = parameters["seed"]
    best = tune(split.train, folds=min(N_FOLDS, n_labelled), seed=seed, **options).best
    setting: dict[str, Any] = {k: v for k, v in best.items() if k not in ("n_features", "score")}
    tested = tune(split.train, validation=split.test, **options).grid
    [score] = [p["score"] for p in tested if setting.items() <= p.items()]
    return Outcome(score, max(point["score"] for point in tested), setting)


def map_splits(run: Callable[[int], Any], n_splits: int, jobs: int) -> Iterator[Any]:
    """``run(number)`` of each split in order, in so many processes if there are several."""
    if jobs == 1:
        yield from map(run, range(n_splits))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run, range(n_splits))


def shared_parameters(method: Method, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those that the method's estimator has: SPD takes no views."""
    without = ("views",) if method.model == "spd" else ()
    return {name: value for name, value in parameters.items() if name not in without}


def relevance_of_queries(dataset: Dataset) -> list[Array]:
    """The relevance of the documents of each query."""
    blocks = [dataset.block(index) for index in range(dataset.n_blocks)]
    return [part for b in blocks for part in np.split(b.relevance, b.query_ptr[1:-1])]


def compared(scores: Sequence[float], others: Sequence[float]) -> Difference:
    """Scores of one method less those of another on the same splits, at least two."""
    differences = np.array(scores) - np.array(others)
    n = len(differences)
    error = resampled_error(differences, (1 - TRAINING_SHARE) / TRAINING_SHARE)
    return Difference(
        mean=float(differences.mean()),
        spread=float(differences.std(ddof=1)),
        half_width=float(special.stdtrit(n - 1, 0.975) * error),
        p_paired=paired_t_test(differences),
        p_corrected=t_test(float(differences.mean()), error, n - 1),
        wins=int((differences > TIE).sum()),
        ties=int((np.abs(differences) <= TIE).sum()),
        losses=int((differences < -TIE).sum()),
    )


def resampled_error(differences: Array, test_to_training: float) -> float:
    """Standard error of a mean over random splits of the same data.

    Splits share queries, so their mean varies more than their spread says: its variance is taken as
    (1 / n + n_test / n_training) times that of a difference.

    Parameters
    ----------
    differences
        (n,) one of each split, n >= 2.
    test_to_training
        Test queries for each training query.

    References
    ----------
    Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.
    """
    return float(differences.std(ddof=1) * np.sqrt(1 / len(differences) + test_to_training))


def t_test(mean: float, error: float, freedom: int) -> float:
    """Two-sided p-value of a mean with this standard error; 1 for a mean of 0."""
    if mean == 0.0:
        return 1.0
    return float(2.0 * special.stdtr(freedom, -abs(mean) / error)) if error else 0.0
