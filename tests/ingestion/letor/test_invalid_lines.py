"""Invalid LETOR text of every kind: the error says where, what is wrong, and what to do."""

import gzip
import lzma
import re
import sys
import tempfile

import numpy as np
import pytest

from dranking.errors import DataError, UsageError
from dranking.ingestion.letor import row_buffer as letor_rows
from dranking.ingestion.letor.reader import read_letor

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GOOD = b"1 qid:1 1:0.5 2:1\n# a comment\n"  # the next line is line 3


def error_of(*paths, **options):
    """Message of the error that reading raises, without the folders in paths."""
    with pytest.raises(DataError) as caught:
        list(read_letor(paths, **options))
    return str(caught.value).replace(f"{paths[0].parent}/", "")


def error_in(folder, line, **options):
    path = folder / "train.txt"
    path.write_bytes(GOOD + line + b"\n0 qid:end 1:nonsense\n")
    return error_of(path, **options)


WRONG_LINES = {
    "expected the relevance": [
        ("x qid:1 1:1", "x"), ("nan qid:1 1:1", "nan"), ("inf qid:1 1:1", "inf"),
        ("1e999 qid:1 1:1", "1e999"), ("qid:1 1:1", "qid:1"),
    ],
    "the relevance is": [
        ("1.5e154 qid:1 1:1", "1.5e154"), (f"1{51 * '0'} qid:1 1:1", f"1{51 * '0'}"),
        ("-2 qid:1 1:1", "-2"),
        ("-0.5 qid:1 1:1", "-0.5"), ("-1.00000000000000001e1 qid:1", "-1.00000000000000001e1"),
    ],
    "expected qid:<id>": [
        ("1 1:1", "1:1"), ("1 1:1 2:1", "1:1"), ("1 qid: 1:1", "qid:"), ("1 QID:1 1:1", "QID:1"),
    ],
    "the end of the line": [("1", "")],
    "expected <index>": [
        ("1 qid:1 1:1 2", "2"), ("1 qid:1 1:1 x:2", "x:2"), ("1 qid:1 -1:1", "-1:1"),
        ("1 qid:1 1 :1", "1"), (b"1 qid:1 1:1 \xff:2", "\ufffd:2"),
        (f"1 qid:1 {99 * 'x'}", f"{60 * 'x'}..."),
    ],
    "feature index": [
        ("1 qid:1 0:1", "0:1"), ("1 qid:1 2:1 2:1", "2:1"), ("1 qid:1 3:1 2:1", "2:1"),
        ("1 qid:1 2147483647:1", "2147483647:1"), (f"1 qid:1 1{30 * '0'}:1", f"1{30 * '0'}:1"),
    ],
    "not a finite number": [
        ("1 qid:1 1:nan", "1:nan"), ("1 qid:1 1:-inf", "1:-inf"), ("1 qid:1 1:", "1:"),
        ("1 qid:1 1: 5", "1:"), ("1 qid:1 1:1_0", "1:1_0"), ("1 qid:1 1:null", "1:null"),
        ("1 qid:1 1:-NULL", "1:-NULL"),
    ],
    "missing": [("1 qid:1 1:NULL", "1:NULL")],
    "float32": [
        ("1 qid:1 1:1e39", "1:1e39"), ("1 qid:1 1:-1e39", "1:-1e39"),
        ("1 qid:1 1:1e999", "1:1e999"),
        ("1 qid:1 1:340282356779733661637539395458142568448", "34028235677973366163753939545814"),
    ],
    "the query id is not UTF-8": [(b"1 qid:\xff 1:1", "")],
    "the comment is not UTF-8": [(b"1 qid:1 1:1 # caf\xe9", "")],
}  # fmt: skip
"""By the noun that the error has: lines, and the word of the line that the error quotes."""


class TestLines:
    @pytest.mark.parametrize("noun", WRONG_LINES)
    @pytest.mark.parametrize("chunk_bytes", [5, 1_000])
    def test_what_is_wrong(self, tmp_path, noun, chunk_bytes):
        for line, word in WRONG_LINES[noun]:
            written = line if isinstance(line, bytes) else line.encode()
            error = error_in(tmp_path, written, chunk_bytes=chunk_bytes)
            wrong, _, _ = error.partition(". A line reads")  # the form of lines names all parts
            assert wrong.startswith("train.txt:3: "), line
            assert noun in wrong, line
            assert not word or f"'{word}" in wrong, line

    def test_feature_beyond_the_number_announced(self, tmp_path):
        error = error_in(tmp_path, b"1 qid:1 7:1", n_features=3)
        assert error.startswith("train.txt:3: feature index 7 ")
        assert "--n-features 7 " in error

    def test_null_is_no_relevance(self, tmp_path):
        error = error_in(tmp_path, b"NULL qid:1 1:1", nullable=True)
        assert error.startswith("train.txt:3: expected the relevance")

    def test_the_first_error_is_the_one_that_is_told(self, tmp_path):
        # Some errors are found while a line is read, others later for all lines of a chunk.
        error = error_in(tmp_path, b"1 qid:1 9:1\n1 qid:\xff 1:1\n1 qid:1 1:x", n_features=3)
        assert error.startswith("train.txt:3: feature index 9")

    @pytest.mark.parametrize("regroup", [False, True])
    def test_a_dense_block_of_unreasonable_size(self, tmp_path, monkeypatch, regroup):
        monkeypatch.setattr(letor_rows, "MAX_DENSE_BYTES", 4_000)
        path = tmp_path / "train.txt"
        path.write_bytes(b"1 qid:1 1000:1\n1 qid:1 1001:1\n")
        error = error_of(path, regroup=regroup)
        assert error.startswith("2 documents of 1001 features would take")
        assert "read the data as sparse, with --sparse of dranking ingest" in error
        (block,) = read_letor(path, regroup=regroup, sparse=True)
        np.testing.assert_array_equal(block.features.indices, [999, 1000])


class TestQueriesApart:
    text = b"0 qid:a 1:1\n\n0 qid:b 1:1\n0 qid:b 1:1\n0 qid:c 1:1\n0 qid:b 1:1\n"

    @pytest.mark.parametrize("chunk_bytes", [1, 20, 30, 1_000])
    def test_in_one_file(self, tmp_path, chunk_bytes):
        path = tmp_path / "train.txt"
        path.write_bytes(self.text)
        error = error_of(path, max_documents=1, chunk_bytes=chunk_bytes)
        assert error.startswith("train.txt:6: query b appears again (first at line 3, ended at li")
        assert "line 4" in error
        assert "--regroup" in error

    @pytest.mark.parametrize("chunk_bytes", [1, 20, 1_000])
    def test_in_several_files(self, tmp_path, chunk_bytes):
        first, second, third = (tmp_path / f"{name}.txt" for name in "xyz")
        first.write_bytes(b"0 qid:a 1:1\n0 qid:b 1:1\n")
        second.write_bytes(b"0 qid:b 1:1\n")
        third.write_bytes(b"0 qid:c 1:1\n0 qid:b 1:1\n")
        error = error_of(first, second, third, chunk_bytes=chunk_bytes)
        assert error.startswith(
            "z.txt:2: query b appears again (first at x.txt:2, ended at y.txt:1). Rows"
        )


class TestFiles:
    @pytest.mark.parametrize("content", [b"", b"\n\n", b"# only a comment", b"\xef\xbb\xbf\n"])
    @pytest.mark.parametrize("regroup", [False, True])
    def test_no_documents(self, tmp_path, content, regroup):
        path = tmp_path / "train.txt"
        path.write_bytes(content)
        assert error_of(path, regroup=regroup).startswith("train.txt: holds no documents; ")

    def test_no_features(self, tmp_path):
        path = tmp_path / "train.txt"
        path.write_bytes(b"1 qid:1\n")
        assert error_of(path).startswith("train.txt: holds no features; ")
        (block,) = read_letor(path, n_features=2)
        np.testing.assert_array_equal(block.features, [[0, 0]])

    @pytest.mark.parametrize("chunk_bytes", [1, 1_000])
    def test_different_numbers_of_features(self, tmp_path, chunk_bytes):
        first, second = tmp_path / "a.txt", tmp_path / "b.txt"
        first.write_bytes(b"1 qid:1 3:1\n1 qid:1 4:1\n")
        second.write_bytes(b"1 qid:2 1:1\n\n1 qid:2 6:1\n0 qid:2 6:2\n")
        error = error_of(first, second, chunk_bytes=chunk_bytes)
        assert re.search(r"^b\.txt:3: .*6.* a\.txt .*4 \(line 2\).*--n-features 6 ", error)
        assert "--n-features 6 " in error_of(second, first)
        blocks = list(read_letor([first, second], n_features=6, max_documents=1))
        assert [block.n_features for block in blocks] == [6, 6]

    def test_no_file(self, tmp_path):
        for place in (tmp_path / "none.txt", tmp_path):
            with pytest.raises(DataError, match=str(place)):
                read_letor(place)
        with pytest.raises(UsageError, match="no file"):
            read_letor([])

    @pytest.mark.parametrize(
        ("ending", "compress"),
        [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd.compress)],
    )
    @pytest.mark.parametrize("harm", ["cut", "changed", "not compressed"])
    def test_damaged_compression(self, tmp_path, ending, compress, harm):
        rng = np.random.default_rng(1)
        text = b"".join(b"1 qid:1 1:%f\n" % value for value in rng.random(1_000))
        content = bytearray(compress(text))
        if harm == "cut":
            del content[-200:]
        elif harm == "changed":
            content[len(content) // 2 : len(content) // 2 + 100] = bytes(100)
        else:
            content = text
        path = tmp_path / f"train.txt{ending}"
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            list(read_letor(path))
        if "the compressed data is damaged" not in str(caught.value):
            # Without a checksum in between, the damaged text fails before the checksum does.
            assert re.search(r"train\.txt\.\w+:\d+: ", str(caught.value))

    def test_no_room_to_regroup(self, tmp_path, monkeypatch):
        path = tmp_path / "train.txt"
        path.write_bytes(GOOD)
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open("/dev/full", "wb"))
        with pytest.raises(UsageError, match=r"TMPDIR"):
            list(read_letor(path, regroup=True))


@pytest.mark.parametrize(
    ("name", "value"), [("n_features", 0), ("max_documents", 0), ("chunk_bytes", -1)]
)
def test_options_out_of_range(tmp_path, name, value):
    path = tmp_path / "train.txt"
    path.write_bytes(GOOD)
    with pytest.raises(UsageError, match=f"{name} is {value}"):
        read_letor(path, **{name: value})
