"""Text that is cut anywhere reads as the whole text does, errors included."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dranking.errors import DataError
from dranking.ingestion.letor.reader import read_letor
from dranking.ingestion.letor.row_buffer import BlockForm
from dranking.ingestion.letor.text_ranges import check_ranges, read_range, text_ranges
from dranking.ingestion.letor.text_source import is_compressed
from dranking.ingestion.letor.token_rows import token_block

LINES = st.sampled_from(
    [
        b"2 qid:1 1:0.5 3:-2.25 # docid = d1 good\n",
        b"-1 qid:1 2:1e-3 3:1\r\n",
        b"0 qid:2 1:-0 3:4\n",
        b"1 qid:long-name 3:1 #\n",
        b"0 qid:\xc3\xa4 1:NULL 3:7 # \xc3\xa4\n",
        b"\n",
        b"# only a comment\n",
    ]
)
WRONG = st.sampled_from(
    [b"1 qid:3 1:x 3:1\n", b"oops\n", b"1 qid:3 5:1\n", b"1 qid:\xff 3:1\n", b"", b"1 qid:3 2:1\n"]
)


def read_in_ranges(folder, texts, range_bytes, chunk_bytes, n_features=None, sparse=False):
    """All rows as one block, read range by range."""
    places = [folder / f"{number}.txt" for number in range(len(texts))]
    for place, text in zip(places, texts, strict=True):
        place.write_bytes(text)
    parts = text_ranges(places, [len(text) for text in texts], range_bytes)
    tables = []
    found = [
        read_range(
            part, tables.append, n_features=n_features, nullable=True, chunk_bytes=chunk_bytes
        )
        for part in parts
    ]
    check_ranges(parts, found, n_features, sparse=True)
    form = BlockForm(
        n_features or max(read.widest.width for read in found),
        sparse,
        any(read.has_doc_ids for read in found),
        any(read.has_comments for read in found),
    )
    return token_block(pa.concat_tables(tables), form)


@settings(max_examples=40)
@given(
    texts=st.lists(st.lists(LINES, min_size=1, max_size=12), min_size=1, max_size=3),
    range_bytes=st.integers(1, 90),
    chunk_bytes=st.sampled_from([3, 50, 1 << 20]),
    cut=st.booleans(),
    sparse=st.booleans(),
    wrong=st.none() | st.tuples(st.integers(0, 2), st.integers(0, 12), WRONG),
)
def test_ranges_hold_what_files_hold(
    tmp_path_factory, texts, range_bytes, chunk_bytes, cut, sparse, wrong
):
    if wrong is not None:
        texts[wrong[0] % len(texts)].insert(wrong[1], wrong[2])
    whole = [b"\xef\xbb\xbf" + b"".join(lines) for lines in texts]
    if cut:
        whole[-1] = whole[-1][:-1]  # the last line may lack its newline
    folder = tmp_path_factory.mktemp("ranges")
    paths = [folder / f"{number}.txt" for number in range(len(whole))]
    problem = ""
    try:
        found = read_in_ranges(folder, whole, range_bytes, chunk_bytes, sparse=sparse)
    except DataError as error:
        problem = str(error)
    if problem:
        with pytest.raises(DataError) as expected:
            list(read_letor(paths, nullable=True, regroup=True, sparse=sparse))
        assert problem == str(expected.value)
        return
    reader = read_letor(paths, nullable=True, regroup=True, sparse=sparse)
    blocks = [reader.complete(block) for block in list(reader)]
    rows = {}
    for query, (a, b) in zip(
        found.query_ids.to_pylist(),
        zip(found.query_ptr, found.query_ptr[1:], strict=False),
        strict=True,
    ):
        rows.setdefault(query, []).extend(range(a, b))
    order = [row for group in rows.values() for row in group]
    assert list(rows) == [q for block in blocks for q in block.query_ids.to_pylist()]
    dense = found.features.toarray() if sparse else found.features
    expected = [block.features.toarray() if sparse else block.features for block in blocks]
    assert dense[order].tobytes() == np.concatenate(expected).tobytes()
    np.testing.assert_array_equal(
        found.relevance[order], np.concatenate([block.relevance for block in blocks])
    )
    for name in ("doc_ids", "comments"):
        values = getattr(found, name)
        if values is None:
            assert getattr(blocks[0], name) is None
        else:
            expected_values = [v for block in blocks for v in getattr(block, name).to_pylist()]
            assert values.take(order).to_pylist() == expected_values


def test_compressed_files_are_ranges_of_their_own(tmp_path):
    names = [tmp_path / "a.txt.gz", tmp_path / "b.txt"]
    assert [is_compressed(name) for name in names] == [True, False]
    parts = text_ranges(names, [1_000, 1_000], 300)
    assert [(part.file, part.start, part.stop) for part in parts] == [
        (0, 0, None),
        (1, 0, 300),
        (1, 300, 600),
        (1, 600, None),
    ]
