"""Predictions written as TREC runs and parquet, against trec_eval."""

import csv
import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError, UsageError
from dranking.metrics.prediction_files import (
    document_ids,
    write_predictions,
    write_predictions_parquet,
    write_trec_run,
)
from dranking.metrics.scores.read_scores import read_scores


def make_block(sizes, query_ids, doc_ids=None):
    n = sum(sizes)
    return QueryBlock(
        features=np.zeros((n, 1), dtype=np.float32),
        relevance=np.zeros(n),
        query_ptr=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        query_ids=pa.array(query_ids),
        doc_ids=None if doc_ids is None else pa.array(doc_ids),
    )


def lines_of(path):
    return [line.split(" ") for line in path.read_text(encoding="utf-8").splitlines()]


def test_document_ids__made_where_absent():
    assert document_ids(make_block([2, 1], ["a", "b"])).to_pylist() == ["a-0", "a-1", "b-0"]
    assert document_ids(make_block([2], [5], [30, None])).to_pylist() == ["30", "5-1"]
    some = document_ids(make_block([2, 2], [1, 2]), np.array([3, 0]))
    assert some.to_pylist() == ["2-1", "1-0"]


def test_trec_run__format_order_and_blocks(tmp_path):
    path = tmp_path / "test.run"
    first = make_block([3, 1], ["q1", "q2"], ["d1", "d2", "d3", "d9"])
    second = make_block([2], ["q3"], ["x", "y"])
    write_trec_run(path, iter([(first, [0.5, 2.0, 1.0, -1.0]), (second, [0.25, 0.5])]), "mine")
    assert path.read_text() == (
        "q1 Q0 d2 1 2.0 mine\n"
        "q1 Q0 d3 2 1.0 mine\n"
        "q1 Q0 d1 3 0.5 mine\n"
        "q2 Q0 d9 1 -1.0 mine\n"
        "q3 Q0 y 1 0.5 mine\n"
        "q3 Q0 x 2 0.25 mine\n"
    )


def test_trec_run__ties_by_descending_id_in_bytes(tmp_path):
    path = tmp_path / "test.run"
    ids = ["d1", "é", "d10", "D2", "d9", "ab", "a"]
    # The last score but one exceeds the others only in float64; trec_eval reads float32.
    write_trec_run(path, [(make_block([7], [1], ids), [1, 1, 1, 1, 1, 1 + 1e-12, 2])])
    expected = ["a", *sorted(ids[:-1], key=lambda i: i.encode(), reverse=True)]
    assert [line[2] for line in lines_of(path)] == expected
    assert [line[3] for line in lines_of(path)] == list("1234567")


def test_trec_run__scores_read_back_exactly(tmp_path):
    path = tmp_path / "test.run"
    scores = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    write_trec_run(path, [(make_block([200], [1], [f"d{i:03d}" for i in range(200)]), scores)])
    read = {line[2]: float(line[4]) for line in lines_of(path)}
    assert [read[f"d{i:03d}"] for i in range(200)] == scores.tolist()


def test_trec_run__ranks_agree_with_trec_eval(tmp_path):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    path = tmp_path / "test.run"
    rng = np.random.default_rng(1)
    block = make_block([12] * 5, list(range(5)))
    write_trec_run(path, [(block, rng.integers(0, 4, 60) / 3)])
    lines = lines_of(path)
    run = {}
    for qid, _, docid, _, score, _ in lines:
        run.setdefault(qid, {})[docid] = float(score)
    for qid, _, docid, rank, _, _ in lines:
        evaluator = pytrec_eval.RelevanceEvaluator({qid: {docid: 1}}, {"recip_rank"})
        assert evaluator.evaluate(run)[qid]["recip_rank"] == pytest.approx(1 / int(rank))


@pytest.mark.parametrize("tag", ["", "two words", "end\n"])
def test_trec_run__bad_tag(tmp_path, tag):
    with pytest.raises(UsageError, match="must be one word"):
        write_trec_run(tmp_path / "test.run", [], tag)


@pytest.mark.parametrize("bad", ["", "two words", "tab\t", "line\n", "\v", "wide\u3000", "\u00a0x"])
def test_trec_run__white_space_in_ids(tmp_path, bad):
    path = tmp_path / "test.run"
    good = make_block([1], ["q"], ["d"])
    with pytest.raises(DataError, match=r"document id"):
        write_trec_run(path, [(good, [1.0]), (make_block([1], ["q"], [bad]), [1.0])])
    with pytest.raises(DataError, match=r"query id"):
        write_trec_run(path, [(good, [1.0]), (make_block([1], [bad], ["d"]), [1.0])])
    assert list(tmp_path.iterdir()) == []


def test_trec_run__repeated_document(tmp_path):
    block = make_block([1, 3], ["p", "q"], ["a", "a", "b", "a"])
    with pytest.raises(DataError, match="query q: document id 'a'"):
        write_trec_run(tmp_path / "test.run", [(block, [1.0, 2.0, 3.0, 4.0])])


@pytest.mark.parametrize(("score", "what"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_trec_run__scores_must_be_finite(tmp_path, score, what):
    block = make_block([1, 2], ["p", "q"])
    with pytest.raises(DataError, match=f"query q: the score of document 1 .* is {what}"):
        write_trec_run(tmp_path / "test.run", [(block, [1.0, 2.0, score])])


def test_existing_files_need_overwrite(tmp_path):
    block = make_block([1], ["q"])
    for write in (write_trec_run, write_predictions_parquet):
        path = tmp_path / write.__name__
        write(path, [(block, [1.0])])
        before = path.read_bytes()
        with pytest.raises(UsageError, match="--overwrite"):
            write(path, [(block, [2.0])])
        assert path.read_bytes() == before
        write(path, [(block, [2.0])], overwrite=True)
        assert path.read_bytes() != before


@pytest.mark.parametrize("query_ids", [[4, 2], ["a", "b"]])
@pytest.mark.parametrize("doc_ids", [None, [7, 8, 9], ["x", "y", "z"]])
def test_predictions_parquet(tmp_path, query_ids, doc_ids):
    path = tmp_path / "scores.parquet"
    block = make_block([2, 1], query_ids, doc_ids)
    scores = np.array([1 / 3, -2.0, 5e-324])
    write_predictions_parquet(path, iter([(block, scores), (block, -scores)]))
    table = pq.read_table(path)
    assert table.column_names == ["qid", "docid", "row", "score"]
    first, last = query_ids
    assert table["qid"].to_pylist() == [first, first, last] * 2
    assert table["docid"].to_pylist() == (doc_ids or [None] * 3) * 2
    assert table["row"].to_pylist() == list(range(6))
    assert table["score"].to_pylist() == [*scores, *-scores]


def test_predictions_parquet__errors_leave_nothing(tmp_path):
    path = tmp_path / "scores.parquet"
    block = make_block([1], ["q"])
    with pytest.raises(DataError, match="no predictions to write"):
        write_predictions_parquet(path, [])
    with pytest.raises(DataError, match=r"query q: .* is NaN"):
        write_predictions_parquet(path, [(block, [1.0]), (block, [np.nan])])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.csv.gz", "p.TSV.GZ"])
def test_predictions_csv(tmp_path, name):
    """Read back by the csv module and by the product; odd ids are quoted."""
    first = make_block([2, 1], ["a,b", 'say "x"'], ["d\t1", "line\nbreak", "007"])
    second = make_block([3], ["q"])
    blocks = [(first, [0.1, 1 / 3, -2.0]), (second, [1.0, 5.0, 1.0])]
    write_predictions(tmp_path / name, "csv", blocks)
    opened = gzip.open if name.lower().endswith(".gz") else open
    with opened(tmp_path / name, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t" if "tsv" in name.lower() else ","))
    assert rows == [
        ["qid", "docid", "score", "rank"],
        ["a,b", "d\t1", "0.1", "2"],
        ["a,b", "line\nbreak", repr(1 / 3), "1"],
        ['say "x"', "007", "-2.0", "1"],
        ["q", "q-0", "1.0", "3"],  # of two ties, the larger id comes first
        ["q", "q-1", "5.0", "1"],
        ["q", "q-2", "1.0", "2"],
    ]
    scores = read_scores(tmp_path / name)
    for block, expected in blocks:
        np.testing.assert_array_equal(scores.of_block(block), expected)


def test_a_compressed_run_holds_the_run_and_neither_its_name_nor_the_time(tmp_path):
    predictions = [(make_block([2], ["q"], ["ä", "b"]), [1.0, 2.0])]
    names = ("plain.run", "a.run.gz", "b.gz")
    for name in names:
        write_predictions(tmp_path / name, "trec", predictions)
    plain, first, second = ((tmp_path / name).read_bytes() for name in names)
    assert first == second
    assert (
        gzip.decompress(first) == plain == "q Q0 b 1 2.0 dranking\nq Q0 ä 2 1.0 dranking\n".encode()
    )
    assert first[3:8] == bytes(5)  # RFC 1952: no flags, such as that of a name, and no time
