"""Inputs of stages beside their data: the rival's model, and segments of the judged queries."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dranking.errors import DataError
from dranking.metrics.per_query import PerQuery
from dranking.retrain.workflow import Run, Workflow


def stored_model(run: Run, workflow: Workflow, version: str) -> Any:
    """The model of a version of the registry."""
    with tempfile.TemporaryDirectory() as folder:
        if not run.registry.copy(version, workflow.model_name, Path(folder)):
            raise DataError(
                f"{run.registry}: the champion, version {version}, is no model of a ranker such as "
                f"{run.config.model.kind}, so the two cannot be compared; use two registries."
            )
        return workflow.load(Path(folder))


def segments_of(run: Run, judged: PerQuery) -> pa.Array | None:
    """(n_queries,) segment of every judged query; None without segments."""
    data = run.config.data
    if data.segments is None:
        return None
    try:
        table = pq.read_table(data.segments, columns=["qid", data.segment_column])
        known = table["qid"].cast(pa.string())
        segments = table[data.segment_column].cast(pa.string()).combine_chunks()
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DataError(
            f"{data.segments}: needs the columns qid and {data.segment_column} ({error})."
        ) from error
    return segments.take(pc.index_in(judged.query_ids.cast(pa.string()), known))
