"""Scores of a linear model, feature by feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.steps import restricted_steps
from dranking.data.tables.any_table import is_dask
from dranking.engine.choose_executor import get_executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import UsageError
from dranking.models.linear.scoring import (
    Transforms,
    locate_features,
    prepared_block,
    prepared_rows,
)

if TYPE_CHECKING:
    from dranking.models.linear.model import LinearModel

N_SHOWN = 10
"""Documents, and features of each, in the text of an explanation."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each feature contributes to the scores of documents.

    Attributes
    ----------
    feature_names
        The features with a weight other than 0, in the order of the model.
    contributions
        (n_documents, n_features) float64: weight times value.
    scores
        (n_documents,) float64: the sums of the rows, feature by feature in order.
    """

    feature_names: tuple[str, ...]
    contributions: NDArray[np.float64]
    scores: NDArray[np.float64]

    def difference(self, document: int, other: int) -> Explanation:
        """Why one document has another score than a second one, by their row numbers.

        The only row of the result is the difference of the contributions, and its score the
        difference of the scores, but for rounding.
        """
        row = self.contributions[document] - self.contributions[other]
        return Explanation(self.feature_names, row[None, :], _sums(row[None, :]))

    def largest(self, document: int = 0, n: int | None = None) -> list[tuple[str, float]]:
        """Names and contributions of the features of one document that contribute most."""
        row = self.contributions[document]
        order = np.argsort(-np.abs(row), kind="stable")[:n].tolist()
        return [(self.feature_names[j], float(row[j])) for j in order]

    def to_frame(self) -> Any:
        """A pandas DataFrame with a column for each feature, and the scores as ``score``.

        Without the column ``score`` if a feature has this name.
        """
        import pandas as pd

        frame = pd.DataFrame(self.contributions, columns=list(self.feature_names))
        return frame if "score" in frame else frame.assign(score=self.scores)

    def __repr__(self) -> str:
        """The largest contributions of the first documents."""
        lines: list[str] = []
        for document, score in enumerate(self.scores[:N_SHOWN].tolist()):
            lines.append(f"document {document}: score {score:.6g}")
            shown = self.largest(document, N_SHOWN)
            lines += [f"  {value:<+10.4g} {name}" for name, value in shown]
            if len(shown) < len(self.feature_names):
                lines.append(f"  ... {len(self.feature_names) - len(shown):,} more features")
        if len(self.scores) > N_SHOWN:
            lines.append(f"... {len(self.scores) - N_SHOWN:,} more documents")
        return "\n".join(lines)


def explained(model: LinearModel, data: Any, *, qid: Any, executor: Any) -> Explanation:
    """The explanation of the scores of a data set, of rows in memory, or of one document."""
    names = used_names(model)
    if is_dask(data):
        raise UsageError(
            "explain takes rows in memory or a data set, not a Dask collection: give the documents "
            "of interest, such as frame.head()."
        )
    if isinstance(data, Dataset):
        rows, parts = data, [part for _, part in explained_blocks(model, data, executor)]
    else:
        used, steps = _used(model), model.preparation
        rows, blocks = prepared_rows(
            _as_rows(data), model.feature_names, used, steps, qid=qid, model="the model"
        )
        weights = np.array(model.weights)[used]
        parts = [contributions_of_rows(block, slice(None), weights) for block in blocks]
    contributions = np.concatenate(parts) if parts else np.empty((0, len(names)))
    contributions = rows.in_given_order(contributions)
    return Explanation(names, contributions, _sums(contributions))


def explained_blocks(
    model: LinearModel, dataset: Dataset, executor: Any = None
) -> Iterator[tuple[QueryBlock, NDArray[np.float64]]]:
    """Yield blocks and the contributions to their scores, in order; zeros are numbers, too."""
    used = _used(model)
    steps = restricted_steps(model.preparation, used)
    columns, missing = locate_features(used_names(model), steps, dataset)
    yield from map_blocks(
        _explain_block,
        dataset,
        get_executor(executor),
        np.array(model.weights)[used],
        missing,
        columns=columns,
        name="predict",
    )


def with_scores(contributions: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_documents, 1 + n_features) contributions, with their sums in the first column."""
    return np.column_stack([_sums(contributions), contributions])


def used_names(model: LinearModel) -> tuple[str, ...]:
    """Names of the features with a weight other than 0."""
    return tuple(model.feature_names[i] for i in _used(model).tolist())


def _used(model: LinearModel) -> NDArray[np.intp]:
    return np.flatnonzero(np.array(model.weights))


def _explain_block(
    block: QueryBlock, weights: NDArray[np.float64], transforms: Transforms
) -> tuple[QueryBlock, NDArray[np.float64]]:
    block = prepared_block(block, transforms)
    return block, contributions_of_rows(block, slice(None), weights)


def contributions_of_rows(
    block: QueryBlock, rows: Sequence[int] | slice, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(n_rows, n_features) weight times value of some documents of a prepared block."""
    features = block.features[rows]
    values = features.toarray() if sparse.issparse(features) else features
    return np.asarray(weights * values.astype(np.float64))


def _sums(contributions: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_documents,) sums of the columns in order, as `linear_scores` adds."""
    scores = np.zeros(len(contributions))
    for column in contributions.T:
        scores += column
    return scores


def _as_rows(data: Any) -> Any:
    """One document, as a mapping or a pandas Series of values, as a table of one row."""
    if isinstance(data, Mapping) or type(data).__name__ == "Series":
        return pa.table({str(name): [value] for name, value in data.items()})
    return data
