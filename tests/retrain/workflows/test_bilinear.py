"""Runs of the bilinear ranker, on texts of two subjects without words in common."""

import hashlib
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from dranking.bilinear.model import load_bilinear_model
from dranking.bilinear.texts.make_collection import text_collection
from dranking.errors import DataError, TryAgainError, UsageError
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import MODEL_FOLDER, Registry
from dranking.retrain.runner import retrain
from dranking.retrain.workflows import bilinear
from dranking.retrain.workflows.bilinear import label_preferences
from tests.reference.metrics import average_precision

SUBJECTS = {"sea": "boat sail wave tide harbour anchor", "wood": "tree leaf bark root moss acorn"}


def write_texts(path, seed, n=24, words_of=SUBJECTS):
    """Write texts of three words of a subject; texts of one subject seldom share words.

    The words of judged texts (seed 99) are in another order, so that no text is trained on.
    """
    rng = np.random.default_rng(seed)
    labels = rng.choice(list(words_of), n)
    words = [sorted(rng.choice(words_of[label].split(), 3, replace=False)) for label in labels]
    texts = [" ".join(reversed(each) if seed == 99 else each) for each in words]
    ids = [f"{seed}-{row}" for row in range(n)]
    pq.write_table(pa.table({"id": ids, "text": texts, "label": labels}), path)


class Texts:
    def __init__(self, folder):
        self.folder = folder
        (folder / "incoming").mkdir()
        write_texts(folder / "holdout.parquet", seed=99, n=40)

    def night(self, night, **options):
        write_texts(self.folder / "incoming" / f"{night}.parquet", night, **options)

    def run(self, *settings, **options):
        path = self.folder / "retrain.toml"
        path.write_text(
            f"""
            [data]
            train = "{self.folder}/incoming/*.parquet"
            holdout = "{self.folder}/holdout.parquet"
            [model]
            kind = "bilinear"
            regularization = 1e-4
            parameters = {{n_steps = 3000, learning_rate = 2.0, n_epochs = 2}}
            [gate]
            metric = "map"
            resamples = 100
            false_promotions_per_year = 1000
            [export]
            report = false
            [registry]
            location = "{self.folder}/registry"
            [run]
            work = "{self.folder}/work"
            metrics = ["map"]
            """
        )
        return retrain(load_config(path, settings, {}), **options)

    @property
    def registry(self):
        return Registry(self.folder / "registry")


@pytest.fixture
def texts(tmp_path):
    return Texts(tmp_path)


def test_two_nights(texts, tmp_path):
    texts.night(1)
    first = texts.run()
    assert first.accepted
    checksums = set(texts.registry.manifest("000001").checksums)
    assert {"model/manifest.json", "model/data.npy", "per_query.parquet", "card.html"} < checksums
    assert first.results.evaluate.metrics["challenger"]["map"] > 0.7  # cosine has less
    texts.night(2)
    second = texts.run("export.report=true")
    assert second.results.evaluate.against == "000001"
    assert second.results.ingest.data["train"].n_documents == 48
    assert [part.rpartition("/")[2] for part in second.results.ingest.new] == ["2.parquet"]
    assert texts.registry.aliases.champion == "000002"
    assert texts.run("export.report=true").is_unchanged
    card = json.loads(texts.registry.read("000002", "card.json"))
    assert card["judged"]["metrics"] == second.results.evaluate.metrics
    page = texts.registry.read("000002", "report.html").decode()
    assert "word of the query" in page
    assert "Segment by segment" not in page
    assert "No risk bounds" not in page


def test_the_model_is_that_of_all_texts_and_is_measured_as_average_precision_says(texts, tmp_path):
    for night in (1, 2):
        texts.night(night)
    outcome = texts.run("data.text={n_words=9}", "gate.convention=letor4")
    assert texts.registry.copy("000001", MODEL_FOLDER, tmp_path)
    model = load_bilinear_model(tmp_path / MODEL_FOLDER)
    rows = [
        pq.read_table(texts.folder / "incoming" / f"{night}.parquet").to_pylist()
        for night in (1, 2)
    ]
    found = text_collection([row["text"] for night in rows for row in night], n_words=9)
    assert model.words == found.words
    assert len(model.words) == 9

    judged = pq.read_table(texts.folder / "holdout.parquet").to_pylist()
    scores = model.scores([r["text"] for r in judged], [r["text"] for r in judged])
    precisions = []
    for query, of_query in enumerate(scores):
        others = [i for i in range(len(judged)) if i != query]
        others.sort(key=lambda i: -of_query[i])  # ties in the order of the file
        relevance = [int(judged[i]["label"] == judged[query]["label"]) for i in others]
        precisions.append(average_precision(relevance, "letor4"))
    found = outcome.results.evaluate.metrics["challenger"]["map"]
    assert found == pytest.approx(np.mean(precisions), abs=1e-6)


def test_models_of_other_words_are_measured_on_the_same_queries(texts):
    """Texts without any word of a model are queries as well, so both models rank all texts."""
    texts.night(1, words_of={"sea": "boat sail wave", "wood": "tree leaf bark"})
    texts.run()
    texts.night(2)
    outcome = texts.run()
    assert outcome.results.evaluate.n_queries == 40
    assert "champion" in outcome.results.evaluate.metrics


def test_labels_alone_say_who_is_a_query():
    documents = text_collection(["boat", "", "tree", "leaf"], labels=["a", "a", "b", "c"])
    assert label_preferences(documents).classes.tolist() == [0, 0, -1, -1]
    assert label_preferences(documents).n_excluded == 2


def test_segments_are_of_texts_by_their_ids(texts):
    ids = pq.read_table(texts.folder / "holdout.parquet")["id"].to_pylist()
    table = pa.table({"qid": ids, "segment": ["even", "odd"] * 20})
    pq.write_table(table, texts.folder / "segments.parquet")
    segments = [f"data.segments={texts.folder}/segments.parquet", "gate.max_segment_loss=1"]
    texts.night(1)
    texts.run(*segments)
    texts.night(2)
    outcome = texts.run(*segments)
    rules = [r["rule"] for r in outcome.as_json()["reasons"]]
    assert rules.count("max_segment_loss") == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.normalize=none"], "data.normalize: applies to rows of features"),
        (["tune.folds=3"], "bilinear is trained with one lambda"),
        (["model.regularization=[1, 2]"], "has several values"),
        (["export.formats=['solr']"], "hold linear models"),
        (["model.n_features=3"], "model.n_features: bilinear uses all features"),
        (["model.parameters={checkpoint='x'}"], "model.parameters: bilinear takes no checkpoint"),
        (["data.text={words=5}"], "data.text: bilinear takes no words; choose from lowercase"),
    ],
)
def test_what_it_does_not_take_is_refused(texts, settings, message):
    texts.night(1)
    with pytest.raises(UsageError, match=message):
        texts.run(*settings)
    assert texts.registry.is_new


def test_lambda_must_be_said(texts):
    texts.night(1)
    texts.run()
    path = texts.folder / "retrain.toml"
    path.write_text(path.read_text().replace("regularization = 1e-4", ""))
    with pytest.raises(UsageError, match=r"model\.regularization: is required for bilinear"):
        load_config(path, (), {})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["a b"]}, "has no column label; the bilinear ranker needs texts with labels"),
        ({"words": ["a b"]}, "has no column text and no column label"),
        ({"text": [], "label": []}, "the train data has no text"),
        ({"text": ["boat", None], "label": ["a", "a"]}, "text 1 .* is None, not a string"),
        ({"text": ["boat", "sail"], "label": ["a", None]}, "1 documents have no label"),
    ],
)
def test_wrong_tables_are_named(texts, columns, message):
    types = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    pq.write_table(pa.table(types), texts.folder / "incoming" / "1.parquet")
    with pytest.raises(DataError, match=message):
        texts.run()


def test_what_is_no_table_is_named(texts):
    (texts.folder / "incoming" / "1.parquet").write_text("boat")
    with pytest.raises(DataError, match=r"1\.parquet: .*parquet"):
        texts.run()


def test_nothing_to_rank_is_said(texts):
    texts.night(1)
    table = pa.table({"text": ["boat", "tree"], "label": ["a", "b"]})
    pq.write_table(table, texts.folder / "holdout.parquet")
    with pytest.raises(DataError, match="same label"):
        texts.run()


def test_a_table_that_changes_while_it_is_copied_is_copied_again(texts, monkeypatch):
    texts.night(1)
    read = bilinear.read_bytes

    def growing(place):
        content = read(place)
        if str(place).endswith("/1.parquet"):
            texts.night(1, n=30)
        return content

    monkeypatch.setattr(bilinear, "read_bytes", growing)
    with pytest.raises(TryAgainError, match=r"1\.parquet: .*changed"):
        texts.run()
    monkeypatch.undo()
    assert texts.run().results.ingest.data["train"].n_documents == 30


@pytest.mark.exhaustive
def test_a_night_in_an_object_store_is_that_on_disk(texts, bucket):
    texts.night(1)
    here = texts.run()
    for name in ("incoming/1.parquet", "holdout.parquet"):
        (UPath(bucket) / name).write_bytes((texts.folder / name).read_bytes())
    path = texts.folder / "retrain.toml"
    path.write_text(path.read_text().replace(str(texts.folder), bucket))
    there = retrain(load_config(path, (), {}))
    assert there.results.ingest.data == here.results.ingest.data
    assert there.results.evaluate.metrics == here.results.evaluate.metrics
    registry = Registry(f"{bucket}/registry")
    arrays = [
        sorted(digest for name, digest in r.manifest("000001").checksums.items() if "npy" in name)
        for r in (registry, texts.registry)
    ]
    assert arrays[0] == arrays[1] != []
    assert retrain(load_config(path, (), {})).is_unchanged


def test_old_copies_are_deleted_and_kept_ones_are_what_was_there(texts):
    for night in (1, 2, 3):
        texts.night(night)
        texts.run("data.window=2")
    copies = {
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (texts.folder / "work" / "parts").glob("*.parquet")
    }
    sources = [texts.folder / "incoming" / f"{night}.parquet" for night in (2, 3)]
    sources.append(texts.folder / "holdout.parquet")
    assert copies == {hashlib.sha256(path.read_bytes()).hexdigest() for path in sources}


def test_a_registry_holds_models_that_can_be_compared(texts, tmp_path):
    from tests.retrain.stream import Stream

    stream = Stream(tmp_path / "rows")
    stream.night(1)
    rows = load_config(stream.config(), [f"registry.location={tmp_path}/registry"], {})
    retrain(rows)
    texts.night(1)
    with pytest.raises(DataError, match=r"000001.*bilinear"):
        texts.run()


def judged_rows(texts):
    return pq.read_table(texts.folder / "holdout.parquet").to_pylist()


def add(texts, rows, name="2"):
    """A part of the training with these rows."""
    table = pa.Table.from_pylist(rows, pa.schema({key: pa.string() for key in rows[0]}))
    pq.write_table(table, texts.folder / "incoming" / f"{name}.parquet")


def other_texts(rows):
    """The ids of the rows with other texts."""
    return [{**row, "text": f"other {row['text']}"} for row in rows]


def renamed(rows):
    return [{**row, "id": f"new-{row['id']}"} for row in rows]


def nameless(rows):
    return [{"text": row["text"], "label": row["label"]} for row in rows]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (list, "99-0, 99-1"),
        (other_texts, "99-0, 99-1"),
        (renamed, "new-99-0, new-99-1"),
        (nameless, "row 0 of .*/2.parquet, row 1 of .*/2.parquet"),
    ],
)
def test_judged_texts_are_left_out(texts, tmp_path, change, where):
    """The model is that of the other texts, and the night says how many were left out."""
    texts.night(1)
    alone = texts.run()
    add(texts, change(judged_rows(texts)[:10]))
    outcome = texts.run()
    assert outcome.results.ingest.n_left_out == outcome.as_json()["left_out"] == 10
    [said] = [note for note in outcome.notes if "left out of the training" in note]
    assert re.match(rf"10 of 34 training texts are judged as well \({where}", said)
    lineage = texts.registry.manifest("000002").lineage
    assert lineage["left_out"] == 10
    for version in ("000001", "000002"):
        texts.registry.copy(version, MODEL_FOLDER, tmp_path / version)
    models = [load_bilinear_model(tmp_path / v / MODEL_FOLDER) for v in ("000001", "000002")]
    np.testing.assert_array_equal(*(model.weights.toarray() for model in models))
    assert [model.trained_queries().n_queries for model in models] == [24, 24]
    expected = {"n_judged": 40, "n_trained_on": 0, "n_other_documents": 0}
    assert lineage["trained_on"] == {"challenger": expected, "champion": expected}
    assert alone.results.ingest.n_left_out == 0


def test_texts_of_parts_with_the_same_ids_and_without_ids_are_trained_on(texts, tmp_path):
    texts.night(1)
    rows = pq.read_table(texts.folder / "incoming" / "1.parquet").to_pylist()
    add(texts, other_texts(rows))
    add(texts, nameless(other_texts(other_texts(rows[:4]))), name="3")
    assert texts.run().results.ingest.n_left_out == 0
    texts.registry.copy("000001", MODEL_FOLDER, tmp_path)
    known = load_bilinear_model(tmp_path / MODEL_FOLDER).trained_queries()
    assert known.holds(pa.array([row["id"] for row in rows])).all()


def test_the_configuration_can_refuse(texts):
    texts.night(1)
    add(texts, judged_rows(texts)[:10])
    with pytest.raises(DataError, match=r"10 of 34 training texts .* data.holdout_overlap"):
        texts.run("data.holdout_overlap=error")
    assert texts.registry.is_new


def test_nothing_left_is_refused(texts):
    """A part that is the held-out file itself, without any other part."""
    content = (texts.folder / "holdout.parquet").read_bytes()
    (texts.folder / "incoming" / "1.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"40 of 40 training texts .* nothing is left to train on"):
        texts.run()
    texts.night(2)
    assert texts.run().results.ingest.n_left_out == 40


def test_the_texts_of_the_champion_are_counted(texts):
    texts.night(1)
    texts.run()
    rows = pq.read_table(texts.folder / "incoming" / "1.parquet").to_pylist()
    judged = texts.folder / "later.parquet"
    changed = [{**row, "text": "boat tree"} for row in rows[3:5]]
    asked = [*judged_rows(texts), *rows[:3], *changed]
    pq.write_table(pa.Table.from_pylist(asked), judged)
    texts.night(2)
    rows += pq.read_table(texts.folder / "incoming" / "2.parquet").to_pylist()
    settings = (f"data.holdout={judged}", "export.report=true")
    outcome = texts.run(*settings)
    shared = sum(any(r["id"] == a["id"] or r["text"] == a["text"] for a in asked) for r in rows)
    assert outcome.results.ingest.n_left_out == shared > 4
    said = (
        "champion: 3 of 45 judged queries were trained on; 2 more have ids that were trained on "
        "with other texts (ids that every file numbers anew, or texts that changed)"
    )
    assert said in outcome.notes
    lineage = texts.registry.manifest("000002").lineage["trained_on"]
    assert lineage["champion"] == {"n_judged": 45, "n_trained_on": 3, "n_other_documents": 2}
    assert lineage["challenger"]["n_trained_on"] == 0
    page = texts.registry.read("000002", "report.html").decode()
    assert "left out of the training" in page
    assert "The model: 0 of 45 judged queries were trained on." in page
    assert "The champion: 3 of 45 judged queries were trained on; 2 more have ids" in page
    assert said in texts.run(*settings).notes  # as the markers keep them
