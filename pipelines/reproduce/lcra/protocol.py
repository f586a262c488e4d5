"""The protocol of the LCRA study: splits that hide labels, tuning by folds, paired tests."""

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
from dranking.data.scaling import scaled
from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError
from dranking.ingestion.open import open_dataset
from dranking.metrics.comparison.significance import paired_t_test
from dranking.tuning.families import ModelName
from dranking.tuning.folds import QueryKFold
from dranking.tuning.search import tune

TRAINING_SHARE = 0.7
N_FOLDS = 5
MEASURE = "map"
TIE = 1e-12
"""Scores that differ by less than this count as equal."""

Array = NDArray[np.float64]


class Method(NamedTuple):
    """A column of the paper's tables.

    Attributes
    ----------
    model
        Name of the ranker in `tune`.
    mus
        Strengths of the co-regularisation to choose from; None means the strengths of the grid.
    parameters
        Parameters of the estimator.
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
    """Values to choose from, in all combinations; None means the default eta0 of the estimator."""

    lambdas: tuple[float, ...]
    mus: tuple[float, ...]
    eta0s: tuple[float | None, ...]


class Judged(NamedTuple):
    """Documents whose grades are all known.

    Attributes
    ----------
    features
        (n_documents, n_features) float32.
    relevance
        (n_documents,).
    query
        (n_documents,) number of the query of each document, from 0, ascending.
    """

    features: NDArray[np.float32]
    relevance: Array
    query: NDArray[np.int64]

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.query[-1]) + 1


class Split(NamedTuple):
    """Training data with few known labels, and test data."""

    train: Dataset
    test: Dataset


class Outcome(NamedTuple):
    """Result of a method on a split.

    Attributes
    ----------
    score
        Test MAP with the setting that the folds chose.
    attainable
        Test MAP of the best setting of the grid, chosen on the test queries themselves.
    setting
        The setting that the folds chose.
    """

    score: float
    attainable: float
    setting: dict[str, float | None]


class Difference(NamedTuple):
    """Difference of two methods over the splits.

    Attributes
    ----------
    mean, spread
        Mean and standard deviation of the differences.
    half_width
        Half width of the 95 % confidence interval of the mean, corrected like `p_corrected`.
    p_paired
        P-value of the paired t-test over the splits. The value is too small, because splits share
        queries.
    p_corrected
        P-value of the t-test that is corrected for shared queries.
    wins, ties, losses
        Number of splits of each kind.
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
    """Files that hold each query once: parts S1 to S5, files of Fold1, or files of the folder.

    Raises
    ------
    DataError
        If there are no such files.
    """
    for place, pattern in ((folder, "S[1-5].txt"), (folder / "Fold1", "*.txt"), (folder, "*.txt")):
        if files := sorted(place.glob(pattern)):
            return files
    raise DataError(
        f"{folder}: holds neither S1.txt to S5.txt, nor Fold1, nor other .txt files; name the "
        "folder of a LETOR data set, unpacked."
    )


def split_queries(judged: Judged, seed: int, labels: float) -> Split:
    """Split the queries at random; few training queries keep their labels.

    Parameters
    ----------
    judged
        The documents.
    seed
        Seed of the split.
    labels
        Share of the training queries that keep their labels; at least two queries, for the folds.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(judged.n_queries)
    training = order[: round(TRAINING_SHARE * len(order))]
    labelled = training[: max(2, round(labels * len(training)))]

    known = np.isin(judged.query, labelled)
    relevance = np.where(known, judged.relevance, np.nan)
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
        "grid": {
            "regularization": grid.lambdas,
            **({"mu": mus} if mus else {}),
            "eta0": grid.eta0s,
        },
        "parameters": {**parameters, **method.parameters},
        "metric": MEASURE,
        "convention": convention,
    }
    n_labelled = sum(np.isfinite(y).any() for y in relevance_of_queries(split.train))
    seed = parameters["random_state"]
    best = tune(
        split.train, validation=QueryKFold(min(N_FOLDS, n_labelled), seed), **options
    ).chosen
    setting: dict[str, Any] = {k: v for k, v in best.items() if k not in ("n_features", "score")}
    tested = tune(split.train, validation=split.test, **options).grid
    [score] = [p["score"] for p in tested if setting.items() <= p.items()]
    return Outcome(score, max(point["score"] for point in tested), setting)


def map_splits(run: Callable[[int], Any], n_splits: int, jobs: int) -> Iterator[Any]:
    """Yield ``run(number)`` of each split in order, computed in `jobs` processes."""
    if jobs == 1:
        yield from map(run, range(n_splits))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run, range(n_splits))


def relevance_of_queries(dataset: Dataset) -> list[Array]:
    """The relevance of the documents of each query."""
    blocks = [dataset.block(index) for index in range(dataset.n_blocks)]
    return [part for b in blocks for part in np.split(b.relevance, b.query_ptr[1:-1])]


def compared(scores: Sequence[float], others: Sequence[float]) -> Difference:
    """Compare two methods by their scores on the same splits, of which there are at least two."""
    differences = np.array(scores) - np.array(others)
    n = len(differences)
    error = resampled_error(differences, (1 - TRAINING_SHARE) / TRAINING_SHARE)
    return Difference(
        mean=float(differences.mean()),
        spread=float(differences.std(ddof=1)),
        half_width=float(special.stdtrit(n - 1, 0.975) * error),
        p_paired=paired_t_test(differences, np.ones(n)),
        p_corrected=t_test(float(differences.mean()), error, n - 1),
        wins=int((differences > TIE).sum()),
        ties=int((np.abs(differences) <= TIE).sum()),
        losses=int((differences < -TIE).sum()),
    )


def resampled_error(differences: Array, test_to_training: float) -> float:
    """Standard error of a mean over random splits of the same data.

    Splits share queries, so the mean over splits varies more than the spread over splits says. The
    variance of the mean is therefore (1 / n + n_test / n_training) times that of a difference.

    Parameters
    ----------
    differences
        (n,) difference of each split, n >= 2.
    test_to_training
        Test queries for each training query.

    References
    ----------
    Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.
    """
    return float(differences.std(ddof=1) * np.sqrt(1 / len(differences) + test_to_training))


def t_test(mean: float, error: float, freedom: int) -> float:
    """Two-sided p-value of a mean with a standard error; 1 for a mean of 0."""
    if mean == 0.0:
        return 1.0
    return float(2.0 * special.stdtr(freedom, -abs(mean) / error)) if error else 0.0
