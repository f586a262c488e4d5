"""Files that are not read are recognised for what they are, whatever their names."""

import gzip

import pandas as pd
import pytest

import dranking as dr
from dranking.errors import DataError

TEXT = "1 qid:1 1:0.5 2:2\n0 qid:1 1:0.25 2:1\n"
RUN = "1 Q0 b 1 2.0 tag\n1 Q0 a 2 1.0 tag\n"
TABLE = pd.DataFrame({"qid": ["1", "1"], "docid": ["a", "b"], "score": [1.0, 2.0]})


def json_of(path):
    TABLE.to_json(path, orient="records")


def pretty_json_of(path):
    TABLE.to_json(path, orient="records", indent=2)


def json_lines_of(path):
    TABLE.to_json(path, orient="records", lines=True)


def compressed_json_of(path):
    path.write_bytes(gzip.compress(TABLE.to_json(orient="records").encode()))


def utf16_of(text, encoding="utf-16"):
    return lambda path: path.write_text(text, encoding=encoding)


@pytest.mark.parametrize(
    ("write", "name", "kind"),
    [
        (TABLE.to_orc, "data.orc", "ORC"),
        (utf16_of(TEXT), "data.txt", "UTF-16"),
        (utf16_of(TEXT, "utf-16-le"), "data.txt", "UTF-16"),
    ],
)
def test_data_of_another_kind(write, name, kind, tmp_path):
    write(tmp_path / name)
    with pytest.raises(DataError, match=rf"{name}:1: the file is .*{kind}, .* once"):
        dr.open_dataset(tmp_path / name)


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (json_of, "data.txt"),
        (pretty_json_of, "data.parquet"),
        (json_lines_of, "data.jsonl"),
        (compressed_json_of, "data.txt.gz"),
        (TABLE.to_feather, "data.parquet"),
    ],
)
def test_data_is_known_by_its_content(write, name, tmp_path):
    write(tmp_path / name)
    data = dr.open_dataset(tmp_path / name, columns=dr.Columns(relevance=None))
    assert data.feature_names == ("score",)
    assert data.block(0).doc_ids.to_pylist() == ["a", "b"]
    assert data.block(0).features.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("write", "name", "kind"),
    [
        (json_lines_of, "scores.txt", "JSON"),
        (compressed_json_of, "scores.csv.gz", "JSON"),
        (TABLE.to_feather, "scores.parquet", "Feather"),
        (utf16_of(RUN), "run.txt", "UTF-16"),
        (utf16_of(TABLE.to_csv(index=False), "utf-16-be"), "scores.csv", "UTF-16"),
    ],
)
def test_scores_of_another_kind(write, name, kind, tmp_path):
    write(tmp_path / name)
    with pytest.raises(DataError, match=rf"{name}: is .*{kind}, .* once"):
        dr.read_scores(tmp_path / name)


@pytest.mark.parametrize("text", [RUN, TABLE.to_csv(index=False)], ids=["run", "csv"])
def test_a_byte_order_mark_is_no_part_of_the_first_query(text, tmp_path):
    name = "run.txt" if text == RUN else "scores.csv"
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    data = dr.from_arrays([[0.0], [1.0]], [0, 1], ["1", "1"], doc_ids=["a", "b"])
    found = dr.evaluate(dr.read_scores(tmp_path / name), data, metric=["map"])
    assert found.metrics["map"] == 1.0


def test_text_that_begins_as_nothing_else_does_is_text(tmp_path):
    (tmp_path / "data.txt").write_text(TEXT, encoding="utf-8-sig")
    assert dr.open_dataset(tmp_path / "data.txt").n_documents == 2


@pytest.mark.parametrize("qid", ["ORCHID-1", "ORC", "FEA1", "ARROW1"])
def test_a_query_id_may_begin_as_a_binary_file_does(qid, tmp_path):
    (tmp_path / "run.txt").write_text(f"{qid} Q0 b 1 2.0 tag\n{qid} Q0 a 2 1.0 tag\n")
    data = dr.from_arrays([[0.0], [1.0]], [1, 0], [qid, qid], doc_ids=["a", "b"])
    found = dr.evaluate(dr.read_scores(tmp_path / "run.txt"), data, metric=["map"])
    assert found.metrics["map"] == 0.5
