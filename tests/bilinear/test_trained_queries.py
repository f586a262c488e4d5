"""Judged queries that a bilinear model was trained on: the file beside the model, their number."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.errors import DataError, UsageError
from dranking.models import trained_queries

SUBJECTS = ("boat sail wave tide harbour anchor", "tree leaf bark root moss acorn")
SHORT = {"n_steps": 200, "learning_rate": 1.0, "n_epochs": 2}


def texts(ids, seed=0):
    """Texts of three words of a subject; the text of an id depends on seed and id alone."""
    found = []
    for i in ids:
        words = SUBJECTS[i % 2].split()
        chosen = np.random.default_rng([seed, i]).choice(words, 3, replace=False)
        found.append(" ".join([*chosen, f"n{seed}x{i}"]))  # so that no two texts are equal
    return found


def labels(ids):
    return [("sea", "wood")[i % 2] for i in ids]


def table(ids, seed=0, named=True):
    found = {"text": texts(ids, seed), "label": labels(ids)}
    return pa.table({"id": [f"d{i}" for i in ids], **found} if named else found)


def stored(path, ids, seed=0, named=True):
    pq.write_table(table(ids, seed, named), path)
    return path


def opened(path, ids, model=None, **options):
    vectorizer = None if model is None else model.vectorizer
    return dr.open_collection(stored(path, ids, **options), vectorizer)


def ranker():
    return dr.BilinearRanker(1e-3, **SHORT)


def overlap(model, documents, **options):
    found = dr.evaluate_bilinear(model, documents, dr.same_class(documents), **options).trained_on
    return found.n_judged, found.n_trained_on, found.n_other_documents


@pytest.fixture
def trained(tmp_path):
    """A stored model of the texts 0 to 39, loaded again."""
    ranker().fit(opened(tmp_path / "train.parquet", range(40))).to_model().save(tmp_path / "m")
    return dr.load_model(tmp_path / "m")


def test_a_model_knows_its_texts(trained, tmp_path):
    assert trained.trained_queries().n_queries == 40
    judged = opened(tmp_path / "judged.parquet", range(37, 97), trained)
    assert overlap(trained, judged) == (60, 3, 0)
    anew = opened(tmp_path / "anew.parquet", range(37, 97), trained, seed=1)
    assert overlap(trained, anew) == (60, 0, 3)
    found = dr.evaluate_bilinear(trained, anew, dr.same_class(anew)).trained_on
    assert found.text.startswith(
        "0 of 60 judged queries were trained on; 3 more have ids that were trained on with other "
        "texts"
    )
    assert overlap(trained, opened(tmp_path / "c.parquet", range(50, 90), trained)) == (40, 0, 0)


def test_the_vectors_of_a_text_have_the_same_bits_alone_and_in_training(trained, tmp_path):
    """Whatever texts stand around it, in whatever order, and whichever way they are stored."""
    ids = [39, 4, 17, 8, 61, 60]
    judged = opened(tmp_path / "judged.parquet", ids, trained)
    assert overlap(trained, judged) == (6, 4, 0)
    judged.save(tmp_path / "collection")
    assert overlap(trained, dr.load_collection(tmp_path / "collection")) == (6, 4, 0)
    named = {"ids": judged.ids, "labels": labels(ids)}
    dense = dr.collection(judged.vectors.toarray(), **named)
    assert overlap(trained, dense) == (6, 4, 0)
    in_python = dr.text_collection(texts(ids), trained.vectorizer, **named)
    assert overlap(trained, in_python) == (6, 4, 0)


@pytest.mark.parametrize(("named", "judged_named"), [(False, True), (True, False), (False, False)])
def test_without_ids_equal_texts_count_and_row_numbers_do_not(named, judged_named, tmp_path):
    """The first rows of two files have the same numbers, and nothing else in common."""
    documents = opened(tmp_path / "train.parquet", range(40), named=named)
    ranker().fit(documents).to_model().save(tmp_path / "m")
    model = dr.load_model(tmp_path / "m")
    assert model.trained_queries().n_queries == 40
    judged = opened(tmp_path / "a.parquet", range(37, 97), model, named=judged_named)
    assert overlap(model, judged) == (60, 3, 0)
    anew = opened(tmp_path / "b.parquet", range(40), model, seed=1, named=judged_named)
    assert overlap(model, anew) == (40, 0, 0)
    judged.save(tmp_path / "collection")
    again = dr.load_collection(tmp_path / "collection")
    assert overlap(model, again.take(np.arange(20))) == (20, 3, 0)


def judgments(queries, documents, asked):
    """Judgments of two documents for each of these queries."""
    query_ids, doc_ids = np.repeat(asked, 2), np.tile(["d0", "d1"], len(asked))
    return dr.preferences_from_judgments(
        queries, documents, query_ids, doc_ids, np.tile([1, 0], len(asked))
    )


@pytest.mark.parametrize("form", ["judgments", "tuples"])
def test_queries_of_their_own_count_and_documents_do_not(form, tmp_path):
    documents = opened(tmp_path / "docs.parquet", range(40))
    queries = dr.text_collection(
        texts(range(100, 120)), documents.vectorizer, ids=[f"q{i}" for i in range(20)]
    )
    asked = [f"q{i}" for i in range(15)]  # five queries have no preference
    preferences = judgments(queries, documents, asked)
    if form == "tuples":
        sides = asked, ["d0"] * 15, ["d1"] * 15
        preferences = dr.preferences_from_table(queries, documents, *sides)
    model = ranker().fit(documents, preferences, queries=queries).to_model()
    assert model.trained_queries().n_queries == 15
    judged = judgments(queries, documents, [f"q{i}" for i in range(10, 20)])
    found = dr.evaluate_bilinear(model, documents, judged, queries=queries).trained_on
    assert (found.n_judged, found.n_trained_on) == (10, 5)
    assert overlap(model, documents) == (40, 0, 0)


def test_tuples_over_one_collection_have_some_documents_as_queries(tmp_path):
    documents = opened(tmp_path / "docs.parquet", range(40))
    sides = ["d3", "d5"], ["d0", "d1"], ["d1", "d0"]
    preferences = dr.preferences_from_table(documents, documents, *sides)
    assert overlap(ranker().fit(documents, preferences).to_model(), documents) == (40, 2, 0)


def test_texts_without_tuples_were_not_trained_on():
    documents = dr.text_collection(
        ["boat sail", "sail wave", "tree leaf", "leaf bark", "moss", ""],
        ids=list("abcdef"),
        labels=["sea", "sea", "wood", "wood", "alone", "sea"],
    )
    model = ranker().fit(documents).to_model()
    assert model.trained_queries().n_queries == 4


def test_equal_trainings_give_equal_files_and_others_have_another_key(tmp_path):
    for name, ids in (("a", range(20)), ("b", range(20)), ("c", range(21))):
        ranker().fit(opened(tmp_path / "t.parquet", ids)).to_model().save(tmp_path / name)
    files = [(tmp_path / f"{name}.queries").read_bytes() for name in "abc"]
    assert files[0] == files[1]
    keys = [json.loads(file.partition(b"\n")[0])["key"] for file in files]
    assert keys[0] != keys[2]


def test_the_manifest_has_number_and_checksum(trained, tmp_path):
    from hashlib import blake2b

    content = (tmp_path / "m.queries").read_bytes()
    facts = json.loads((tmp_path / "m" / "manifest.json").read_text())["queries"]
    assert facts == {"n_queries": 40, "checksum": blake2b(content, digest_size=16).hexdigest()}


def test_a_model_without_its_file_and_a_model_by_hand_do_not_know(trained, tmp_path):
    judged = opened(tmp_path / "judged.parquet", range(37, 97), trained)
    (tmp_path / "m").rename(tmp_path / "moved")
    assert overlap(dr.load_model(tmp_path / "moved"), judged) == (60, None, 0)
    by_hand = dr.BilinearModel(trained.weights, trained.words, trained.words)
    assert overlap(by_hand, judged) == (60, None, 0)
    by_hand.save(tmp_path / "by-hand")
    assert overlap(dr.load_model(tmp_path / "by-hand"), judged) == (60, None, 0)
    assert not (tmp_path / "by-hand.queries").exists()


def test_a_damaged_file_is_said_where_it_matters(trained, tmp_path):
    file = tmp_path / "m.queries"
    file.write_bytes(file.read_bytes()[:-1])
    model = dr.load_model(tmp_path / "m")  # it still scores
    judged = opened(tmp_path / "judged.parquet", range(37, 97), model)
    with pytest.raises(DataError, match=r"m.queries: is damaged, .* or delete it"):
        overlap(model, judged)


def test_a_copy_keeps_what_is_known(trained, tmp_path):
    trained.save(tmp_path / "copy")
    assert (tmp_path / "copy.queries").read_bytes() == (tmp_path / "m.queries").read_bytes()


@pytest.mark.parametrize("known", [True, False])
def test_a_save_that_ends_early_leaves_no_file_of_another_model(
    known, trained, tmp_path, monkeypatch
):
    other = ranker().fit(opened(tmp_path / "other.parquet", range(30))).to_model()
    if known:

        def ends(*args, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(trained_queries, "atomic_write", ends)
        with pytest.raises(KeyboardInterrupt):
            other.save(tmp_path / "m", overwrite=True)
    else:
        dr.BilinearModel(other.weights, other.words, other.words).save(
            tmp_path / "m", overwrite=True
        )
    assert not (tmp_path / "m.queries").exists()
    model = dr.load_model(tmp_path / "m")
    np.testing.assert_array_equal(model.weights.toarray(), other.weights.toarray())
    assert model.trained_queries() is None


def test_a_save_that_is_refused_keeps_the_file(trained, tmp_path):
    with pytest.raises(UsageError, match="exists"):
        trained.save(tmp_path / "m")
    assert dr.load_model(tmp_path / "m").trained_queries().n_queries == 40
    (tmp_path / "new.queries").write_text("mine")
    with pytest.raises(UsageError, match="was not written by dranking"):
        trained.save(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_url_works_like_a_path(trained, tmp_path):
    place = dr.as_place("memory://trained-texts/model")
    trained.save(place)
    judged = opened(tmp_path / "judged.parquet", range(37, 97), trained)
    assert overlap(dr.load_model(place), judged) == (60, 3, 0)


def test_a_training_that_goes_on_knows_all_its_queries(tmp_path):
    going = ranker()
    first = opened(tmp_path / "a.parquet", range(60))
    going.partial_fit(first.take(np.arange(10)))
    going.partial_fit(first.take(np.arange(5, 25)))
    model = going.to_model()
    assert model.trained_queries().n_queries == 25
    assert overlap(model, first) == (60, 25, 0)


def test_a_training_that_is_continued_from_its_checkpoint_has_the_same_file(tmp_path):
    documents = opened(tmp_path / "a.parquet", range(20))
    once = ranker().fit(documents).to_model()
    parts = [
        dr.BilinearRanker(1e-3, **SHORT, checkpoint=tmp_path / "state").fit(documents).to_model()
        for _ in range(2)
    ]
    contents = {model.trained_queries().content for model in (once, *parts)}
    assert len(contents) == 1
