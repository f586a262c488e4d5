"""Judged queries that a model was trained on: the file beside the model, and their number."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dranking as dr
from dranking.data.query_hashes import id_hashes
from dranking.errors import DataError, UsageError
from dranking.models import trained_queries
from dranking.models.trained_queries import TrainedQueries, queries_place


def rows(ids, seed=0, n_documents=6):
    """Queries with these ids; the documents of a query depend on seed and id alone."""
    draws = [np.random.default_rng([seed, i]).normal(size=(n_documents, 5)) for i in ids]
    X = np.concatenate(draws)
    return X, (X[:, 0] + X[:, 1] > 0).astype(float), np.repeat(list(ids), n_documents)


def data(ids, seed=0):
    return dr.from_arrays(*rows(ids, seed))


RANKERS = {
    "rankrls": lambda: dr.RankRLS(),
    "greedy": lambda: dr.GreedyRankRLS(n_features=2),
    "scaled": lambda: dr.RankRLS(normalize="query-minmax"),
    "standard": lambda: dr.RankRLS(normalize="standard"),
    "forms": lambda: dr.GreedyRankRLS(n_features=2, forms=["raw", "log"]),
    "ranksvm": lambda: dr.RankSVM(0.01),
    "ranklogistic": lambda: dr.RankLogistic(0.01),
    "max-margin": lambda: dr.MaxMarginRanker(0.1, "ap", tol=1e-1),
    "spd": lambda: dr.SPD(0.01, sgd={"n_epochs": 1, "steps_per_epoch": 200}),
    "lcra": lambda: dr.LCRA(0.01, mu=0, sgd={"n_epochs": 1, "steps_per_epoch": 200}),
}


@pytest.mark.parametrize("name", RANKERS)
def test_every_ranker_knows_its_queries_and_their_documents(name, tmp_path):
    model = RANKERS[name]().fit(data(range(40))).to_model()
    model.save(tmp_path / "model.json")
    stored = dr.load_model(tmp_path / "model.json")
    assert stored == model
    assert stored.queries.n_queries == 40
    for each in (model, stored):
        found = dr.evaluate(each, data(range(30, 50)), ["map"])
        assert (found.trained_on.n_trained_on, found.trained_on.n_other_documents) == (10, 0)
        assert "10 of 20 judged queries were trained on" in repr(found)
    numbered_anew = dr.evaluate(stored, data(range(30, 50), seed=1), ["map"]).trained_on
    assert (numbered_anew.n_trained_on, numbered_anew.n_other_documents) == (0, 10)
    assert dr.evaluate(stored, data(range(50, 60)), ["map"]).trained_on.n_trained_on == 0


def test_equal_trainings_give_equal_files(tmp_path):
    for name in ("a", "b"):
        dr.RankRLS().fit(data(range(20))).to_model().save(tmp_path / f"{name}.json")
    assert (tmp_path / "a.queries").read_bytes() == (tmp_path / "b.queries").read_bytes()
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_another_training_has_another_key(tmp_path):
    one, other = (dr.RankRLS().fit(data(range(20), s)).to_model().trained_queries() for s in (0, 1))
    assert one.key != other.key
    assert not np.isin(one.ids, other.ids).any()


def test_a_model_moved_without_its_file_does_not_know(tmp_path):
    dr.RankRLS().fit(data(range(20))).to_model().save(tmp_path / "model.json")
    (tmp_path / "model.json").rename(tmp_path / "moved.json")
    found = dr.evaluate(dr.load_model(tmp_path / "moved.json"), data(range(20)), ["map"])
    assert found.trained_on.n_trained_on is None
    assert found.trained_on.text.startswith("not known whether the model was trained on")


def test_models_by_hand_and_of_other_tools_do_not_know_and_a_column_has_none():
    judged = data(range(20))
    by_hand = dr.LinearModel(feature_names=("f1",), weights=(1.0,))
    assert dr.evaluate(by_hand, judged, ["map"]).trained_on.n_trained_on is None
    scores = np.zeros(judged.n_documents)
    assert dr.evaluate(scores, judged, ["map"]).trained_on.n_trained_on is None
    assert dr.evaluate("f1", judged, ["map"]).trained_on is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "of another model"])
def test_a_damaged_file_says_what_to_do(damage, tmp_path):
    dr.RankRLS().fit(data(range(20))).to_model().save(tmp_path / "model.json")
    file = tmp_path / "model.queries"
    content = bytearray(file.read_bytes())
    if damage == "cut":
        del content[-3:]
    elif damage == "flipped":
        content[-1] ^= 1
    else:
        content = dr.RankRLS().fit(data(range(9))).to_model().trained_queries().content
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"model.queries: is damaged, .* or delete it"):
        dr.evaluate(dr.load_model(tmp_path / "model.json"), data(range(20)), ["map"])


@pytest.mark.parametrize("queries", [True, False])
def test_a_save_that_ends_early_leaves_no_file_of_another_model(queries, tmp_path, monkeypatch):
    place = tmp_path / "model.json"
    dr.RankRLS().fit(data(range(20))).to_model().save(place)
    model = dr.RankRLS().fit(data(range(30))).to_model()
    if queries:
        write = trained_queries.atomic_write

        def ends_at_queries(path, *args, **options):
            if path.suffix == ".queries":
                raise KeyboardInterrupt
            write(path, *args, **options)

        monkeypatch.setattr(trained_queries, "atomic_write", ends_at_queries)
        with pytest.raises(KeyboardInterrupt):
            model.save(place, overwrite=True)
    else:
        model.trained_on(None).save(place, overwrite=True)
    assert not (tmp_path / "model.queries").exists()
    stored = dr.load_model(place)
    assert stored.weights == model.weights
    assert dr.evaluate(stored, data(range(20)), ["map"]).trained_on.n_trained_on is None


def test_a_save_that_is_refused_keeps_the_file(tmp_path):
    model = dr.RankRLS().fit(data(range(20))).to_model()
    model.save(tmp_path / "model.json")
    with pytest.raises(UsageError, match="exists"):
        model.save(tmp_path / "model.json")
    assert dr.load_model(tmp_path / "model.json").trained_queries().n_queries == 20


def test_a_comparison_knows_both_models():
    a, b = (dr.RankRLS().fit(data(range(n))).to_model() for n in (10, 20))
    found = dr.compare(a, b, data(range(5, 40)), metric=["map"])
    assert {name: o.n_trained_on for name, o in found.trained_on.items()} == {"a": 5, "b": 15}
    assert found.as_json()["trained_on"]["b"]["n_trained_on"] == 15
    values = [dr.evaluate(model, data(range(5, 40)), ["map"]) for model in (a, "f1")]
    found = dr.compare(values[0].per_query, values[1])
    assert found.trained_on["a"].n_trained_on is None
    assert found.trained_on["b"] is None


def test_a_file_of_the_user_is_not_replaced(tmp_path):
    (tmp_path / "model.queries").write_text("mine")
    with pytest.raises(UsageError, match="was not written by dranking"):
        dr.RankRLS().fit(data(range(20))).to_model().save(tmp_path / "model.json")
    assert [file.name for file in tmp_path.iterdir()] == ["model.queries"]


def test_a_training_that_goes_on_knows_all_its_queries():
    ranker = dr.SPD(0.01, sgd={"steps_per_epoch": 200}).partial_fit(data(range(10)))
    ranker.partial_fit(data(range(5, 25)))
    assert ranker.to_model().queries.n_queries == 25
    assert dr.evaluate(ranker, data(range(30)), ["map"]).trained_on.n_trained_on == 25


def test_unlabelled_queries_count_for_lcra_alone():
    X, y, qid = rows(range(30))
    y[qid >= 20] = np.nan
    options = {"sgd": {"n_epochs": 1, "steps_per_epoch": 200}}
    assert dr.LCRA(0.01, **options).fit(X, y, qid=qid).to_model().queries.n_queries == 30
    assert dr.SPD(0.01, **options).fit(X, y, qid=qid).to_model().queries.n_queries == 20


def test_ids_of_a_statistics_store_count_with_any_documents(tmp_path):
    store = dr.build_statistics(data(range(20)), tmp_path / "store")
    model = dr.RankRLS().fit(store).to_model()
    found = dr.evaluate(model, data(range(10, 30), seed=5), ["map"]).trained_on
    assert (found.n_trained_on, found.n_other_documents) == (10, 0)


def test_tune_counts_validation_queries():
    result = dr.tune(data(range(30)), [1.0], validation=data(range(25, 40)), model="rankrls")
    assert result.trained_on.n_trained_on == 5
    assert dr.tune(data(range(30)), [1.0], validation=3, model="rankrls").trained_on is None


def test_a_report_refuses_other_training_data(tmp_path):
    model = dr.RankRLS(normalize="standard").fit(data(range(30))).to_model()
    dr.write_report(model, data(range(40, 60)), tmp_path / "page.html", train=data(range(30)))
    assert "0 of 20 judged queries were trained on" in (tmp_path / "page.html").read_text()
    with pytest.raises(DataError, match="is not that of the model"):
        dr.write_report(model, data(range(40, 60)), tmp_path / "b.html", train=data(range(40, 60)))


def test_the_place_of_the_file(tmp_path):
    assert queries_place(tmp_path / "model.json").name == "model.queries"
    assert queries_place(tmp_path / "model").name == "model.queries"
    assert queries_place(dr.as_place("memory://models/a.json")).name == "a.queries"


def test_a_url_works_like_a_path():
    place = dr.as_place("memory://trained-queries/model.json")
    dr.RankRLS().fit(data(range(20))).to_model().save(place)
    found = dr.evaluate(dr.load_model(place), data(range(20)), ["map"]).trained_on
    assert found.n_trained_on == 20


def test_the_hashes_are_keyed_blake2b():
    from hashlib import blake2b

    expected = blake2b(b"17", digest_size=8, key=b"secret").digest()
    for ids in (pa.array([17]), pa.array(["17"])):
        assert id_hashes(ids, "secret").astype("<u8").tobytes() == expected


PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=30)


def queries_of(pairs):
    ids = id_hashes(pa.array([i for i, _ in pairs], pa.int64()), "k")
    return TrainedQueries.of("k", ("f1",), ids, np.array([d for _, d in pairs], np.uint64))


@given(trained=PAIRS, earlier=PAIRS, judged=PAIRS)
def test_counts_are_those_of_sets(trained, earlier, judged):
    known = queries_of(trained).with_ids_of(queries_of(earlier))
    pairs = set(trained) | set(earlier)
    ids = {i for i, _ in pairs}
    assert known.n_queries == len(ids)
    assert len(known.ids) == len(pairs)
    asked = pa.array([i for i, _ in judged], pa.int64())
    assert known.holds(asked).tolist() == [i in ids for i, _ in judged]
    shared = [(i, d) for i, d in judged if i in ids]
    same = [(i, d) for i, d in shared if d == 0 or (i, d) in pairs or (i, 0) in pairs]
    hashes = id_hashes(pa.array([i for i, _ in shared], pa.int64()), "k")
    found = known.overlap(len(judged), hashes, np.array([d for _, d in shared], np.uint64))
    assert found.n_trained_on == len(same)
    assert found.n_other_documents == len(shared) - len(same)
    assert known.without_documents().n_queries == len(ids)


def test_a_model_says_the_number_and_the_checksum(tmp_path):
    dr.RankRLS().fit(data(range(20))).to_model().save(tmp_path / "model.json")
    stored = json.loads((tmp_path / "model.json").read_text())["queries"]
    assert stored.keys() == {"n_queries", "checksum"}
    assert stored["n_queries"] == 20
