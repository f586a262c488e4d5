import gzip
import itertools
import lzma
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dranking.data.blocks import block_boundaries
from dranking.data.letor import read_letor
from dranking.errors import DataError, UsageError
from tests.data.letor_files import NUMBERS, texts
from tests.reference import letor as reference

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OPTIONS = st.fixed_dictionaries(
    {
        "n_features": st.sampled_from([None, None, 6, 4]),
        "null": st.sampled_from(["error", "zero", "minimum"]),
        "regroup": st.booleans(),
    }
)
COMPRESSORS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("letor")


def written(folder, *contents):
    """Files a.txt, b.txt, ... with some contents; their paths."""
    paths = [folder / f"{chr(ord('a') + at)}.txt" for at in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def dense(block):
    return block.features.toarray() if block.is_sparse else block.features


def assert_same_bits(actual, expected):
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(
        actual.view(f"u{actual.itemsize}"), expected.view(f"u{actual.itemsize}")
    )


def assert_block_equals(block, queries, rows_so_far, n_features):
    """Compare with a list of queries, each a list of rows; `n_features` None: the widest so far."""
    rows = [row for query in queries for row in query]
    width = n_features or max(row.width for row in rows_so_far)
    if block.is_sparse:
        assert (block.features.data != 0).all()
        assert block.features.has_sorted_indices
        # Sparse features do not store -0.
        np.testing.assert_array_equal(dense(block), reference.dense(rows, width))
    else:
        assert block.features.flags.c_contiguous
        assert_same_bits(block.features, reference.dense(rows, width))
    assert_same_bits(block.relevance, np.array([row.relevance for row in rows]))
    np.testing.assert_array_equal(np.diff(block.query_ptr), [len(query) for query in queries])
    assert block.query_ids.to_pylist() == [query[0].qid for query in queries]
    doc_ids = [row.doc_id for row in rows] if any(row.doc_id for row in rows_so_far) else None
    comments = [row.comment for row in rows] if any(row.comment for row in rows_so_far) else None
    assert (None if block.doc_ids is None else block.doc_ids.to_pylist()) == doc_ids
    assert (None if block.comments is None else block.comments.to_pylist()) == comments


def assert_reads_as_reference(paths, max_documents, chunk_bytes, sparse, options):
    """Same blocks, or an error at the same place about the same thing."""
    reader = read_letor(
        paths, max_documents=max_documents, chunk_bytes=chunk_bytes, sparse=sparse, **options
    )
    files = [(str(path), path.read_bytes()) for path in paths]
    try:
        rows = reference.read_rows(files, **options)
    except reference.FlawError as flaw:
        with pytest.raises(DataError) as caught:
            list(reader)
        assert str(caught.value).startswith((f"{flaw.place}: ", f"{flaw.place} has "))
        assert flaw.about in str(caught.value)
        return
    expected = reference.split_blocks(rows, max_documents)
    blocks = list(reader)
    assert len(blocks) == len(expected)
    n_rows = 0
    for block, queries in zip(blocks, expected, strict=True):
        n_rows += sum(map(len, queries))
        so_far = rows if options["regroup"] else rows[:n_rows]
        assert_block_equals(block, queries, so_far, options["n_features"])
    assert reader.n_features == (options["n_features"] or max(row.width for row in rows))
    if options["null"] == "minimum":
        least = reference.minima(rows, reader.n_features)
        np.testing.assert_array_equal(reader.minima, least)
        for block, queries in zip(blocks, expected, strict=True):
            values = reference.dense(sum(queries, []), reader.n_features)
            np.testing.assert_array_equal(
                dense(reader.complete(block)), np.where(np.isnan(values), least, values)
            )


class TestAgainstReference:
    @given(
        text=texts(st.one_of(NUMBERS, st.just(b"NULL")), adjacent=False),
        cuts=st.lists(st.integers(0, 40), max_size=2),
        max_documents=st.integers(1, 8),
        chunk_bytes=st.integers(1, 300),
        sparse=st.booleans(),
        options=OPTIONS,
    )
    def test_generated_files(self, folder, text, cuts, max_documents, chunk_bytes, sparse, options):
        lines = text.splitlines(keepends=True)
        borders = [0, *sorted(cut for cut in cuts if cut < len(lines)), len(lines)]
        parts = [b"".join(lines[a:b]) for a, b in itertools.pairwise(borders)]
        paths = written(folder, *parts)
        assert_reads_as_reference(paths, max_documents, chunk_bytes, sparse, options)

    @given(
        text=texts(),
        edits=st.lists(
            st.tuples(
                st.integers(0, 10_000), st.sampled_from(list(b"\n\r\t #:.-+_eEq0159NULxn\0\xff"))
            ),
            min_size=1,
            max_size=3,
        ),
        chunk_bytes=st.integers(1, 300),
        options=OPTIONS,
    )
    @example(text=b"0 qid:1 1:1e400 2:x", edits=[], chunk_bytes=9, options={"regroup": False})
    def test_damaged_files(self, folder, text, edits, chunk_bytes, options):
        damaged = bytearray(text)
        for position, byte in edits:
            damaged[position % len(damaged)] = byte
        paths = written(folder, bytes(damaged))
        options = {"n_features": None, "null": "error", **options}
        # Sparse, because a damaged index may be in the millions.
        assert_reads_as_reference(paths, 3, chunk_bytes, True, options)
