"""Statistics stores and blocks that several test files make."""

import json
from dataclasses import fields, replace

import numpy as np

from dranking.data.tables.feature_names import default_feature_names
from dranking.files.json_files import sealed_json
from dranking.rankrls.statistics.per_query import QueryStatistics
from dranking.rankrls.statistics.query_times import as_times
from dranking.rankrls.statistics.write_append_expire import write_statistics
from tests.data.store.blocks import everything_in, simple_block


def blocks_of(n_blocks, is_sparse=False, n_features=4):
    """Blocks of three queries with random features; some labels are missing."""
    rng = np.random.default_rng(5)
    for number in range(n_blocks):
        block = simple_block(n_features, (3, 2, 4), first_id=10 * number, is_sparse=is_sparse)
        values = rng.normal(size=(9, n_features)).astype(np.float32)
        relevance = rng.integers(0, 3, 9) * 1.0
        relevance[[1, 3, 4]] = np.nan  # the second query has no label at all
        features = type(block.features)(values) if is_sparse else values
        yield replace(block, features=features, relevance=relevance)


def statistics_of(blocks, times=None):
    for number, block in enumerate(blocks):
        made = QueryStatistics.of(block)
        yield made if times is None else replace(made, times=as_times(times[number], 3))


def written_into(folders, statistics, first=0):
    """Write statistics into the folders of a change."""
    for number, block in enumerate(statistics, start=first):
        yield folders.write(number, block)


def written(blocks, path, times=None, **options):
    blocks = list(blocks)
    names = default_feature_names(blocks[0].n_features)
    return write_statistics(
        lambda folders: written_into(folders, statistics_of(blocks, times)),
        path,
        feature_names=names,
        sparse=blocks[0].is_sparse,
        **options,
    )


def matrices(block):
    """A_q of every query."""
    return np.array(list(block.rows(range(block.n_features)))).swapaxes(0, 1)


def assert_same_statistics(actual, expected):
    assert actual.feature_names == expected.feature_names
    assert actual.blocks == expected.blocks
    for index in range(expected.n_blocks):
        one, other = actual.block(index), expected.block(index)
        np.testing.assert_array_equal(matrices(one), matrices(other))
        for field in fields(QueryStatistics):
            a, b = getattr(one, field.name), getattr(other, field.name)
            if isinstance(b, np.ndarray):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)
            elif field.name not in ("rows", "source", "features_source"):
                assert a == b


def everything_of(store):
    """Content of all files that the manifest names, by block; names themselves are random."""
    return [
        {
            file.relative_to(store.path / entry.path): text
            for file, text in everything_in(store.path / entry.path).items()
        }
        for entry in store.manifest.blocks
    ]


def edited(path, **changes):
    """Change entries of a directory's manifest."""
    file = path / "manifest.json"
    file.write_bytes(sealed_json(json.loads(file.read_text()) | changes))
