"""`dranking predict` on parquet whose rows of a query lie apart."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr

FEATURES = ["x0", "x1", "x2"]


@pytest.fixture(scope="module")
def frame():
    """700 queries of 1 to 58 documents, in order; 20,650 rows are three blocks or more."""
    rng = np.random.default_rng(1)
    sizes = np.arange(700) % 58 + 1
    n_rows = int(sizes.sum())
    frame = pd.DataFrame({"qid": np.repeat(np.arange(700), sizes)})
    frame["docid"] = [f"d{row}" for row in range(n_rows)]
    for j, name in enumerate(FEATURES):
        frame[name] = np.round(rng.normal(size=n_rows) * 10.0**j, 2)
    frame["relevance"] = np.clip(np.round(frame.x0 + frame.x2 / 100), 0, 4)
    return frame


@pytest.fixture(scope="module")
def mixed(frame):
    return frame.sample(frac=1, random_state=0).drop(columns="relevance")


def written(folder, rows, n_files=3):
    """Several files, with row groups of other sizes than blocks."""
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(rows)), n_files)):
        table = pa.Table.from_pandas(rows.iloc[part], preserve_index=False)
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=3_000)
    return folder


def model_of(frame, normalize, place):
    ranker = dr.GreedyRankRLS(2, normalize=normalize).fit(dr.from_table(frame))
    ranker.to_model().save(place)
    return place


def plain_scores(model, frame):
    """The scores from the numbers in the file of a model, a row at a time."""
    stored = json.loads(model.read_text())
    features = frame[stored["feature_names"]].to_numpy(np.float32).astype(np.float64)
    for transform in stored["transforms"]:
        if transform["kind"] == "log":
            features = np.sign(features) * np.log(1 + np.abs(features))
        else:
            assert transform["kind"] == "standard"
            features = (features - transform["mean"]) / transform["scale"]
    return [sum(w * x for w, x in zip(stored["weights"], row, strict=True)) for row in features]


@pytest.mark.parametrize("normalize", ["none", "log", "standard"])
def test_rows_that_lie_apart_are_scored_in_their_order(
    dranking, frame, mixed, tmp_path, monkeypatch, normalize
):
    monkeypatch.setattr("dranking.models.write_scores.BLOCKS_PER_PART", 1)
    model = model_of(frame, normalize, tmp_path / "m.json")
    data = written(tmp_path / "mixed", mixed)
    code, out, told = dranking("predict", model, data, "--output", tmp_path / "scores", "--json")
    assert code == 0, told
    assert "without ranks" in told
    facts = json.loads(out)
    assert (facts["n_documents"], facts["n_queries"]) == (len(mixed), 700)
    assert len(list((tmp_path / "scores").glob("part-*"))) > 2
    one = tmp_path / "scores.parquet"
    code, _, told = dranking("predict", model, data, "--output", one)
    assert code == 0, told
    expected = plain_scores(model, mixed)
    for place, columns in ((tmp_path / "scores", []), (one, ["row"])):
        found = pd.read_parquet(place)
        assert list(found) == ["qid", "docid", *columns, "score"]
        assert found.qid.tolist() == mixed.qid.tolist()
        assert found.docid.tolist() == mixed.docid.tolist()
        np.testing.assert_allclose(found.score, expected, rtol=1e-5, atol=1e-5)
    assert pd.read_parquet(one).row.tolist() == list(range(len(mixed)))


@pytest.mark.parametrize("with_ids", [True, False])
def test_such_scores_are_those_of_the_rows_brought_together(
    dranking, frame, mixed, tmp_path, with_ids
):
    """In every bit; without ids, the rows of a query keep their order."""
    model = model_of(frame, "log", tmp_path / "m.json")
    rows = frame.loc[mixed.index] if with_ids else frame.loc[mixed.index].drop(columns="docid")
    data = written(tmp_path / "mixed", rows)
    ordered, _ = dr.ingest(data, tmp_path / "ordered.zarr")
    places = [tmp_path / "scores", tmp_path / "scores.parquet"]
    for place in places:
        code, _, told = dranking("predict", model, data, "--output", place)
        assert code == 0, told
        scores = dr.read_scores(place)
        found = [scores.of_block(ordered.block(b)) for b in range(ordered.n_blocks)]
        expected = dr.load_model(model).predict(ordered)
        assert np.concatenate(found).tobytes() == expected.tobytes()


@pytest.mark.parametrize("normalize", ["query-minmax", "rank"])
def test_a_scaling_by_the_documents_of_a_query_needs_them_together(
    dranking, frame, mixed, tmp_path, normalize
):
    model = model_of(frame, normalize, tmp_path / "m.json")
    data = written(tmp_path / "mixed", mixed)
    for output in ("scores", "scores.parquet"):
        code, _, told = dranking("predict", model, data, "--output", tmp_path / output)
        assert code == 3
        assert f"scales features by all documents of a query ({normalize}), so rows of a" in told
        assert f"dranking ingest {data} --features" in told
        assert not (tmp_path / output).exists()


def test_data_that_is_scaled_already_needs_no_other_rows(dranking, frame, tmp_path):
    model = model_of(frame, "query-minmax", tmp_path / "m.json")
    scaled, _ = dr.ingest(frame, tmp_path / "scaled.zarr", normalize="query-minmax")
    dr.write_parquet(scaled, tmp_path / "scaled.parquet")
    table = pq.read_table(tmp_path / "scaled.parquet")  # the metadata record the scaling
    order = np.random.default_rng(0).permutation(len(table))
    pq.write_table(table.take(order), tmp_path / "mixed.parquet")
    code, _, told = dranking(
        "predict", model, tmp_path / "mixed.parquet", "--output", tmp_path / "scores"
    )
    assert code == 0, told
    expected = dr.load_model(model).predict(dr.open_dataset(tmp_path / "scaled.parquet"))
    assert pd.read_parquet(tmp_path / "scores").score.tolist() == expected[order].tolist()


@pytest.mark.parametrize(("name", "form"), [("s.csv", "csv"), ("s.tsv", "csv"), ("s.run", "trec")])
def test_forms_with_ranks_need_whole_queries(dranking, frame, mixed, tmp_path, name, form):
    model = model_of(frame, "none", tmp_path / "m.json")
    data = written(tmp_path / "mixed", mixed)
    code, _, told = dranking("predict", model, data, "--output", tmp_path / name)
    assert code == 3
    assert f"--format {form} ranks the documents of a query, so rows of a query must be" in told
    assert "dranking ingest" in told
    assert not (tmp_path / name).exists()


def test_queries_in_one_piece_have_ranks(dranking, frame, tmp_path):
    model = model_of(frame, "none", tmp_path / "m.json")
    data = written(tmp_path / "whole", frame)
    code, _, told = dranking("predict", model, data, "--output", tmp_path / "scores")
    assert (code, "without ranks" in told) == (0, False)
    found = pd.read_parquet(tmp_path / "scores")
    ties = found.groupby("qid").score.transform(lambda s: s.astype(np.float32).duplicated().any())
    ranks = found.groupby("qid").score.rank(ascending=False)
    assert (found["rank"] == ranks)[~ties].all()
