"""Invalid LETOR text of every kind: the error says where, what is wrong, and what to do."""

import gzip
import lzma
import re
import sys
import tempfile

import numpy as np
import pytest

from dranking.data.letor import row_buffer as letor_rows
from dranking.data.letor.reader import read_letor
from dranking.errors import DataError, UsageError

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


class TestLines:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (
                b"x qid:1 1:1",
                "expected the relevance, a finite number, but found 'x'. A line reads",
            ),
            (b"nan qid:1 1:1", "expected the relevance, a finite number, but found 'nan'"),
            (b"inf qid:1 1:1", "expected the relevance, a finite number, but found 'inf'"),
            (b"1e999 qid:1 1:1", "expected the relevance, a finite number, but found '1e999'"),
            (b"1.5e154 qid:1 1:1", "the relevance is '1.5e154'; it must be at most 1e+50, so that"),
            (b"1" + 51 * b"0" + b" qid:1 1:1", "it must be at most 1e+50, so that its square"),
            (b"qid:1 1:1", "expected the relevance, a finite number, but found 'qid:1'"),
            (
                b"-2 qid:1 1:1",
                "the relevance is '-2'; it must be at least 0, or -1 for an unlabelled",
            ),
            (b"-0.5 qid:1 1:1", "the relevance is '-0.5'; it must be at least 0"),
            (b"-1.00000000000000001e1 qid:1", "the relevance is '-1.00000000000000001e1'; it must"),
            (b"1 1:1", "expected qid:<id> behind the relevance, but found '1:1'"),
            (b"1 1:1 2:1", "Sizes of queries in a file of their own, as LightGBM has them"),
            (b"1 qid: 1:1", "expected qid:<id> behind the relevance, but found 'qid:'"),
            (b"1 QID:1 1:1", "expected qid:<id> behind the relevance, but found 'QID:1'"),
            (b"1", "expected qid:<id> behind the relevance, but found the end of the line"),
            (b"1 qid:1 1:1 2", "expected <index>:<value>, but found '2'. A line reads"),
            (b"1 qid:1 1:1 x:2", "expected <index>:<value>, but found 'x:2'"),
            (b"1 qid:1 -1:1", "expected <index>:<value>, but found '-1:1'"),
            (b"1 qid:1 1 :1", "expected <index>:<value>, but found '1'"),
            (b"1 qid:1 1:1 \xff:2", "expected <index>:<value>, but found '\ufffd:2'"),
            (b"1 qid:1 " + 99 * b"x", f"expected <index>:<value>, but found '{60 * 'x'}...'"),
            (b"1 qid:1 0:1", "feature index 0 in '0:1'; indices start at 1. If the file counts"),
            (b"1 qid:1 2:1 2:1", "the feature index of '2:1' is not larger than the one before it"),
            (b"1 qid:1 3:1 2:1", "the feature index of '2:1' is not larger than the one before it"),
            (b"1 qid:1 2147483647:1", "the feature index of '2147483647:1' exceeds 2147483646"),
            (b"1 qid:1 1" + 30 * b"0" + b":1", "exceeds 2147483646"),
            (b"1 qid:1 1:nan", "the value in '1:nan' is not a finite number. Correct it, or write"),
            (b"1 qid:1 1:-inf", "the value in '1:-inf' is not a finite number"),
            (b"1 qid:1 1:", "the value in '1:' is not a finite number"),
            (b"1 qid:1 1: 5", "the value in '1:' is not a finite number"),
            (b"1 qid:1 1:1_0", "the value in '1:1_0' is not a finite number"),
            (b"1 qid:1 1:null", "the value in '1:null' is not a finite number"),
            (b"1 qid:1 1:-NULL", "the value in '1:-NULL' is not a finite number"),
            (
                b"1 qid:1 1:NULL",
                "the value in '1:NULL' is missing. Pass --null zero, minimum",
            ),
            (b"1 qid:1 1:1e39", "the value in '1:1e39' is beyond float32 (about 3.4e+38); rescale"),
            (b"1 qid:1 1:-1e39", "the value in '1:-1e39' is beyond float32"),
            (b"1 qid:1 1:1e999", "the value in '1:1e999' is beyond float32"),
            (b"1 qid:1 1:340282356779733661637539395458142568448", "' is beyond float32"),
            (b"1 qid:\xff 1:1", "the query id is not UTF-8 text (invalid start byte). Convert the"),
            (b"1 qid:1 1:1 # caf\xe9", "the comment is not UTF-8 text ("),
        ],
    )
    @pytest.mark.parametrize("chunk_bytes", [5, 1_000])
    def test_what_is_wrong(self, tmp_path, line, message, chunk_bytes):
        error = error_in(tmp_path, line, chunk_bytes=chunk_bytes)
        assert error.startswith("train.txt:3: ")
        assert message in error

    def test_feature_beyond_the_number_announced(self, tmp_path):
        assert error_in(tmp_path, b"1 qid:1 7:1", n_features=3) == (
            "train.txt:3: feature index 7 exceeds the 3 features that were announced, or that the "
            "data set has to which the text is appended. Ingest everything anew with --n-features "
            "7 of dranking ingest (in Python n_features=7, for retrain data.n_features), or more "
            "if later lines need it."
        )

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
        assert error_of(path, max_documents=1, chunk_bytes=chunk_bytes) == (
            "train.txt:6: query b appears again (first at line 3, ended at line 4). "
            "Rows of a query must be adjacent; pass --regroup of dranking ingest (in Python "
            "regroup=True, for retrain data.regroup) to sort them together."
        )

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
        assert error_of(first, second, chunk_bytes=chunk_bytes) == (
            "b.txt:3: the largest feature index of this file is 6, but the largest of a.txt is 4 "
            "(line 2). If features that a file does not name are meant to be zero, pass "
            "--n-features 6 of dranking ingest (in Python n_features=6, for retrain "
            "data.n_features)."
        )
        assert "pass --n-features 6 of dranking ingest" in error_of(second, first)
        blocks = list(read_letor([first, second], n_features=6, max_documents=1))
        assert [block.n_features for block in blocks] == [6, 6]

    def test_not_there(self, tmp_path):
        with pytest.raises(DataError, match=r"none\.txt: there is no such file\."):
            read_letor(tmp_path / "none.txt")

    def test_a_folder(self, tmp_path):
        with pytest.raises(DataError, match=r"is a folder; name the files in it\."):
            read_letor(tmp_path)

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
        with pytest.raises(UsageError, match=r"is full; .* Set TMPDIR to a folder with more room"):
            list(read_letor(path, regroup=True))


class TestCalls:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_features": 0}, "n_features is 0; it must be at least 1"),
            ({"max_documents": 0}, "max_documents is 0; it must be at least 1"),
            ({"chunk_bytes": -1}, "chunk_bytes is -1; it must be at least 1"),
        ],
    )
    def test_options_out_of_range(self, tmp_path, options, message):
        path = tmp_path / "train.txt"
        path.write_bytes(GOOD)
        with pytest.raises(UsageError, match=message):
            read_letor(path, **options)

    def test_no_file(self):
        with pytest.raises(UsageError, match="no file is named; give at least one"):
            read_letor([])
