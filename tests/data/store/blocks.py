"""Query blocks and data sets for tests of storage, drawn by Hypothesis or simple."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.store.dataset import StoredDataset
from dranking.files.json_files import sealed_json

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


@st.composite
def query_blocks(draw, is_sparse=False, n_features=None, string_ids=None):
    """One block of one to four queries, one to five documents each."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    n = sum(sizes)
    width = draw(st.integers(0, 70)) if n_features is None else n_features
    grades = st.sampled_from([0.0, 1.0, 2.0, 0.5, np.nan])
    weights = draw(st.none() | npst.arrays(np.float64, len(sizes), elements=st.floats(0, 1e6)))
    block = QueryBlock(
        features=draw(_csr(n, width) if is_sparse else _dense(n, width)),
        relevance=draw(npst.arrays(np.float64, n, elements=grades)),
        query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        query_ids=draw(_ids(len(sizes), string_ids)),
        query_weights=weights,
    )
    if draw(st.booleans()):
        block = replace(block, doc_ids=draw(_ids(n)))
    if draw(st.booleans()):
        comments = st.lists(TEXT, min_size=n, max_size=n)
        block = replace(block, comments=pa.array(draw(comments), pa.string()))
    return block


def simple_block(n_features=3, sizes=(2, 1), first_id=10, is_sparse=False, **fields):
    """A block with features 1, 2, 3, ...; `fields` replace fields of the block."""
    n = sum(sizes)
    features = np.arange(1, n * n_features + 1, dtype=np.float32).reshape(n, n_features)
    block = QueryBlock(
        features=sparse.csr_array(features) if is_sparse else features,
        relevance=np.arange(n) % 3 * 1.0,
        query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        query_ids=pa.array(range(first_id, first_id + len(sizes))),
    )
    return replace(block, **fields)


def everything_in(folder):
    """Content of all files by their path in the folder; lock files stay, and do not count."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".lock"]
    return {file: file.read_bytes() for file in files}


def data_sets(is_sparse=False):
    """Lists of one to three blocks of the same width, and that width."""
    return st.integers(1, 70).flatmap(
        lambda width: st.lists(
            query_blocks(is_sparse=is_sparse, n_features=width, string_ids=False),
            min_size=1,
            max_size=3,
        )
    )


def assert_same(block, expected):
    """Two blocks are equal, bit for bit."""
    assert block.is_sparse == expected.is_sparse
    dense, wanted = map(as_dense, (block, expected))
    assert dense.dtype == np.float32
    assert dense.shape == wanted.shape
    np.testing.assert_array_equal(dense.view(np.int32), wanted.view(np.int32))
    for name in ("relevance", "query_ptr"):
        got, want = getattr(block, name), getattr(expected, name)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(block.weights, expected.weights)
    assert (block.query_weights is None) == (expected.query_weights is None)
    assert block.query_ids.equals(expected.query_ids)
    for name in ("doc_ids", "comments"):
        got, want = getattr(block, name), getattr(expected, name)
        assert got is want is None or got.equals(want)


def as_dense(block):
    """Features as a C-ordered dense array."""
    features = block.features.toarray() if block.is_sparse else block.features
    return np.ascontiguousarray(features)


def _dense(n_documents, n_features):
    return st.builds(
        np.asarray,
        npst.arrays(np.float32, (n_documents, n_features), elements=FLOATS),
        order=st.sampled_from("CF"),
    )


def _csr(n_documents, n_features):
    # + 0.0 makes negative zeros positive, since sparse arrays do not store them.
    return npst.arrays(
        np.float32,
        (n_documents, n_features),
        elements=FLOATS.map(lambda x: x + 0.0),
        fill=st.just(0.0),
    ).map(sparse.csr_array)


@st.composite
def _ids(draw, n, string_ids=None):
    as_text = draw(st.booleans()) if string_ids is None else string_ids
    if as_text:
        return pa.array(draw(st.lists(TEXT, min_size=n, max_size=n)), pa.string())
    numbers = st.integers(-(2**63), 2**63 - 1)
    return pa.array(draw(st.lists(numbers, min_size=n, max_size=n)), pa.int64())


def counted_reads(dataset, monkeypatch):
    """A list that grows by the number of every block that is read from now on."""
    reads, read_blocks = [], type(dataset).read_blocks

    def counted(self, start=0, end=None, columns=None):
        reads.extend(range(start, self.n_blocks if end is None else end))
        return read_blocks(self, start, end, columns)

    monkeypatch.setattr(type(dataset), "read_blocks", counted)
    return reads


def edit_manifest(path, change):
    """Apply `change` to the parsed manifest of a directory."""
    file = path / "manifest.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_bytes(sealed_json(content))


def edit_index(path, change):
    """Apply `change` to the rows of the index of a data set, and to the digests that follow it."""
    manifest = json.loads((path / "manifest.json").read_text())
    file = path / manifest["index"]["name"]
    table = pq.read_table(file)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    content = file.read_bytes()
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    edit_manifest(path, lambda m: m["index"].update(n_bytes=len(content), digest=digest))


def edit_chunks(path, change):
    """Apply `change` to the table of chunks of the first segment, and to what follows from it."""
    (file, *_) = sorted(path.glob("segments/*-000000/chunks.parquet"))
    table = pq.read_table(file)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    content = file.read_bytes()
    digest = hashlib.blake2b(content, digest_size=16).digest()
    edit_index(path, lambda r: r[0].update(chunks_bytes=len(content), chunks_digest=digest))


def replayed_fingerprint(dataset):
    """The fingerprint computed from the blocks instead of the manifest."""
    copy = StoredDataset(dataset.path)
    copy.block_digests = lambda: Dataset.block_digests(copy)
    return copy.fingerprint
