"""Flat tables of ranking data, and parquet files with them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def frame_of(sizes=(3, 1, 4, 2), n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    frame = pd.DataFrame({"qid": np.repeat(np.arange(7, 7 + len(sizes)), sizes)})
    frame["docid"] = [f"d{i}" for i in range(n)]
    frame["relevance"] = rng.integers(0, 3, n).astype(float)
    for j in range(n_features):
        frame[f"x{j}"] = rng.normal(size=n).astype(np.float32)
    return frame


def written(path, frame, **options):
    table = (
        frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    )
    pq.write_table(table, path, **options)
    return path
