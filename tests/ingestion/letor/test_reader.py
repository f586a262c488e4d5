"""Reading LETOR text, against a plain reader, scikit-learn, and by hand."""

import gzip
import itertools
import lzma
import sys
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from dranking.errors import DataError
from dranking.ingestion.letor.reader import read_letor
from dranking.ingestion.open import open_dataset
from tests.ingestion.letor.letor_files import NUMBERS, texts
from tests.reference import letor as reference

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OPTIONS = st.fixed_dictionaries(
    {
        "n_features": st.sampled_from([6, 6, 6, None, 4]),
        "nullable": st.booleans(),
        "regroup": st.booleans(),
    }
)
COMPRESSORS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress}
SMALL = b"""\
2 qid:10 1:0.5 3:-1e-3 #docid = GX-1 inc = 1
0 qid:10 2:7 # no id here

# Query ids need no order.
-1 qid:9 1:+1.5 2:.25 3:0 #docid = GX-2
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("letor")


def written(folder, *contents):
    """Write the contents to files a.txt, b.txt, ... and return their paths."""
    paths = [folder / f"{chr(ord('a') + at)}.txt" for at in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def dense(block):
    return block.features.toarray() if block.is_sparse else block.features


def strings(array):
    return None if array is None else array.to_pylist()


def assert_same_bits(actual, expected):
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(
        actual.view(f"u{actual.itemsize}"), expected.view(f"u{actual.itemsize}")
    )


def assert_same_blocks(actual, expected):
    for block, other in zip(actual, expected, strict=True):
        assert_same_bits(dense(block), dense(other))
        assert_same_bits(block.relevance, other.relevance)
        np.testing.assert_array_equal(block.query_ptr, other.query_ptr)
        assert strings(block.query_ids) == strings(other.query_ids)
        assert strings(block.doc_ids) == strings(other.doc_ids)
        assert strings(block.comments) == strings(other.comments)


def assert_block_equals(block, queries, rows_so_far, n_features):
    """Compare a block with lists of rows, one list per query.

    `n_features` None stands for the largest feature index so far.
    """
    rows = [row for query in queries for row in query]
    width = n_features or max(row.width for row in rows_so_far)
    if block.is_sparse:
        assert (block.features.data != 0).all()
        assert block.features.has_sorted_indices
        assert block.features.indices.dtype == block.features.indptr.dtype == np.int32
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
    assert strings(block.doc_ids) == doc_ids
    assert strings(block.comments) == comments


def assert_reads_as_reference(paths, max_documents, chunk_bytes, sparse, options):
    """Both readers give the same blocks, or errors of the same kind at the same place."""
    reader = read_letor(
        paths, max_documents=max_documents, chunk_bytes=chunk_bytes, sparse=sparse, **options
    )
    rows, flaw = reference.rows_or_flaw([(str(path), path.read_bytes()) for path in paths], options)
    if flaw is not None:
        with pytest.raises(DataError) as caught:
            list(reader)
        assert str(caught.value).startswith(f"{flaw.place}: ")
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
    if options["nullable"]:
        for block, queries in zip(blocks, expected, strict=True):
            values = reference.dense(itertools.chain(*queries), reader.n_features)
            np.testing.assert_array_equal(dense(reader.complete(block)), values)


class TestAgainstReference:
    @settings(max_examples=60)
    @given(
        text=texts(st.one_of(NUMBERS, st.just(b"NULL")), adjacent=False),
        cuts=st.lists(st.integers(1, 12), max_size=2),
        max_documents=st.integers(1, 8),
        chunk_bytes=st.integers(1, 300),
        sparse=st.booleans(),
        options=OPTIONS,
    )
    def test_any_rows_in_any_files(
        self, folder, text, cuts, max_documents, chunk_bytes, sparse, options
    ):
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
        options = {"n_features": None, "nullable": False, **options}
        # Sparse blocks, because a damaged index may be in the millions.
        assert_reads_as_reference(paths, 3, chunk_bytes, True, options)


class TestAgainstSklearn:
    def test_mq2008(self, mq2008):
        path = mq2008 / "S1.txt"
        X, y, qid = load_svmlight_file(str(path), query_id=True)
        (block,) = read_letor(path)
        assert_same_bits(block.features, X.toarray().astype(np.float32))
        np.testing.assert_array_equal(block.relevance, y)
        ids = np.array(block.query_ids.to_pylist(), dtype=int)
        np.testing.assert_array_equal(np.repeat(ids, np.diff(block.query_ptr)), qid)
        assert block.doc_ids[0].as_py() == "GX008-86-4444840"
        assert block.comments[0].as_py() == "docid = GX008-86-4444840 inc = 1 prob = 0.086622"

    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_what_sklearn_writes(self, tmp_path, is_sparse):
        rng = np.random.default_rng(0)
        X = sparse.random_array((200, 30), density=0.3, rng=rng, format="csr")
        X.data *= 10.0 ** rng.integers(-40, 30, X.nnz)  # printed with exponents, down to subnormals
        y = rng.integers(0, 5, 200)
        qid = np.sort(rng.integers(0, 20, 200))
        path = tmp_path / "dumped.txt"
        dump_svmlight_file(X, y, str(path), query_id=qid, zero_based=False)
        blocks = list(read_letor(path, n_features=30, sparse=is_sparse, max_documents=40))
        read = np.concatenate([dense(block) for block in blocks])
        # scikit-learn writes 16 digits, which do not always identify a float64.
        np.testing.assert_array_equal(
            read, load_svmlight_file(str(path), n_features=30)[0].toarray().astype(np.float32)
        )
        np.testing.assert_array_equal(np.concatenate([b.relevance for b in blocks]), y)
        sizes = np.concatenate([np.diff(b.query_ptr) for b in blocks])
        np.testing.assert_array_equal(sizes, np.unique(qid, return_counts=True)[1])


class TestByHand:
    def test_small_file(self, folder):
        (block,) = read_letor(written(folder, SMALL))
        expected = [[0.5, 0, -0.001], [0, 7, 0], [1.5, 0.25, 0]]
        np.testing.assert_array_equal(block.features, np.array(expected, dtype=np.float32))
        np.testing.assert_array_equal(block.relevance, [2, 0, np.nan])
        np.testing.assert_array_equal(block.query_ptr, [0, 2, 3])
        assert strings(block.query_ids) == ["10", "9"]
        assert strings(block.doc_ids) == ["GX-1", "", "GX-2"]
        assert strings(block.comments) == ["docid = GX-1 inc = 1", " no id here", "docid = GX-2"]

    @pytest.mark.parametrize(
        "variant",
        [
            SMALL.replace(b"\n", b"\r\n"),
            SMALL.replace(b" 1:", b" \t 1:"),
            SMALL.rstrip(b"\n"),
            b"\xef\xbb\xbf" + SMALL,
            b"\n\n" + SMALL + b"   \n",
        ],
        ids=["CRLF", "tabs", "no last newline", "byte order mark", "blank lines"],
    )
    def test_what_makes_no_difference(self, folder, variant):
        expected = list(read_letor(written(folder, SMALL)))
        assert_same_blocks(read_letor(written(folder, variant)), expected)

    @pytest.mark.parametrize("ending", COMPRESSORS)
    def test_compressed_files(self, folder, ending):
        expected = list(read_letor(written(folder, SMALL)))
        path = folder / f"a.txt{ending}"
        # Two compressed streams in one file, as appending leaves them.
        path.write_bytes(b"".join(map(COMPRESSORS[ending], (SMALL[:50], SMALL[50:]))))
        assert_same_blocks(read_letor(path, chunk_bytes=10), expected)

    def test_a_query_goes_on_in_the_next_file(self, folder):
        paths = written(folder, b"0 qid:1 1:1\n1 qid:2 1:2\n", b"2 qid:2 1:3\n")
        first, second = read_letor(paths, max_documents=2)
        np.testing.assert_array_equal(first.features, [[1]])
        np.testing.assert_array_equal(second.features, [[2], [3]])
        assert strings(second.query_ids) == ["2"]

    def test_query_ids_are_words(self, folder):
        ids = ["1", "01", "123456789012345678901234567890", "-5", "näh:e", "qid:"]
        text = "".join(f"0 qid:{name} 1:1\n" for name in ids)
        (block,) = read_letor(written(folder, text.encode()))
        assert strings(block.query_ids) == ids

    @pytest.mark.parametrize(
        ("null", "expected"),
        [
            ("zero", [[0, 3], [4, 0], [2, -1]]),
            ("minimum", [[2, 3], [4, -1], [2, -1]]),
            ("mean", [[3, 3], [4, 1], [2, -1]]),
        ],
    )
    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_null(self, folder, null, expected, is_sparse):
        text = b"0 qid:1 1:NULL 2:3\n0 qid:2 1:4 2:NULL\n0 qid:3 1:2 2:-1\n"
        data = open_dataset(written(folder, text), null=null, sparse=is_sparse)
        rows = [dense(block) for block in data.read_blocks()]
        np.testing.assert_array_equal(np.concatenate(rows), expected)

    def test_a_feature_that_is_not_named_or_never_known_has_the_minimum_zero(self, folder):
        text = b"0 qid:1 1:5 2:NULL 3:NULL\n0 qid:1 1:4 3:NULL\n0 qid:1 1:NULL 2:7 3:NULL\n"
        block = open_dataset(written(folder, text), null="minimum").block(0)
        np.testing.assert_array_equal(block.features, [[5, 0, 0], [4, 0, 0], [4, 7, 0]])

    def test_regroup(self, folder):
        text = b"0 qid:b 1:1 # x\n1 qid:a 1:2\n2 qid:b 1:3 # y\n3 qid:a 1:4 #docid=z\n"
        (block,) = read_letor(written(folder, text), regroup=True)
        np.testing.assert_array_equal(block.features, [[1], [3], [2], [4]])
        np.testing.assert_array_equal(block.relevance, [0, 2, 1, 3])
        assert strings(block.query_ids) == ["b", "a"]
        assert strings(block.comments) == [" x", " y", "", "docid=z"]
        assert strings(block.doc_ids) == ["", "", "", "z"]


def peak_of_reading(path):
    """Peak of the bytes allocated while a file is read block by block."""
    tracemalloc.start()
    try:
        for _ in read_letor(path, max_documents=200, chunk_bytes=10_000):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class TestStream:
    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_blocks_are_completed_when_all_is_known(self, folder, is_sparse):
        text = b"0 qid:1 1:1\n0 qid:2 1:1 3:2 # docid = d\n"
        reader = read_letor(written(folder, text), max_documents=1, sparse=is_sparse)
        first, second = reader
        assert (first.n_features, second.n_features) == (1, 3)
        assert first.doc_ids is first.comments is None
        complete = reader.complete(first)
        np.testing.assert_array_equal(dense(complete), [[1, 0, 0]])
        assert strings(complete.doc_ids) == strings(complete.comments) == [""]
        assert reader.complete(second).features is second.features

    def test_reading_again_starts_anew(self, folder):
        reader = read_letor(written(folder, SMALL), max_documents=1, nullable=True)
        first = reader.complete_blocks()
        next(iter(reader))
        assert_same_blocks(reader.complete_blocks(), first)

    @pytest.mark.parametrize("regroup", [False, True])
    def test_a_query_of_many_chunks_is_one_block(self, folder, regroup):
        text = b"".join(b"0 qid:1 1:%d 2:1 # %d\n" % (row, row) for row in range(2_000))
        (block,) = read_letor(
            written(folder, text), max_documents=7, chunk_bytes=100, regroup=regroup
        )
        np.testing.assert_array_equal(block.features[:, 0], np.arange(2_000))

    def test_memory_follows_the_block_and_not_the_file(self, tmp_path):
        words = " ".join(f"{index}:0.{index:06d}" for index in range(1, 21))
        files = []
        for n_queries in (100, 500):
            files.append(tmp_path / f"{n_queries}.txt")
            with files[-1].open("w") as file:
                for row in range(10 * n_queries):
                    file.write(f"1 qid:{row // 10} {words} #docid = {row}\n")
        # Allocations of other threads would count too.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            # The first reading makes allocations that stay, such as compiled code.
            _, short, long = alone.map(peak_of_reading, [files[0], *files])
        # About 200 bytes per query find queries that appear again.
        assert long < short + 200 * 400
