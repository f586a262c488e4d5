"""Model cards: everything a reader asks of a model, and nothing that JSON cannot hold."""

import hashlib
import json

import pytest

import dranking as dr
from dranking.bilinear.texts.make_collection import text_collection
from dranking.data.scaling import scaled
from dranking.report.card import card_files, card_page, model_card
from tests.report.test_page import ranking, section

JUDGED = {
    "convention": "letor4",
    "n_queries": 7,
    "metrics": {"challenger": {"map": 0.25, "mrr": None}, "champion": {"map": 0.5}},
    "accepted": False,
    "decision": "rejected",
}


@pytest.fixture(scope="module")
def model():
    return dr.GreedyRankRLS(3, regularization=2.0).fit(scaled(ranking(1), "standard")).to_model()


def test_a_card_says_what_the_model_is_and_where_it_comes_from(model):
    card = model_card(model, "v<1>", files={"solr.json": "{}"}, judged=JUDGED, origin={"run": "r"})
    files = card_files(card)
    assert json.loads(files["card.json"]) == card
    assert card["model"]["weights"] == [
        {"feature": name, "weight": weight}
        for name, weight in zip(model.feature_names, model.weights, strict=True)
    ]
    assert card["model"]["scaling"] == ["standard"]
    assert card["parameters"]["regularization"] == 2.0
    assert card["training_data"]["n_queries"] == 40
    digest = hashlib.sha256(b"{}").hexdigest()
    assert card["exports"] == [{"file": "solr.json", "sha256": digest}]
    page = card_page(card)
    assert page.facts == [
        ("verdict of the gate", "rejected"), ("features", "3"), ("lambda", "2")
    ]  # fmt: skip
    judged = section(page, "How it was judged")
    assert judged.paragraphs == ["On 7 queries, under the letor4 convention."]
    assert judged.tables[0].rows == [("map", "0.2500", "0.5000"), ("mrr", *["not known"] * 2)]
    for shown in ("v&lt;1&gt;", digest, model.feature_names[0], "GreedyRankRLS"):
        assert shown in files["card.html"]


def test_a_card_of_a_model_that_was_not_judged(model):
    page = card_page(model_card(model, "plain", files={}))
    assert page.good is None
    assert section(page, "How it was judged").paragraphs == [
        "The model was not judged when this was written."
    ]
    assert "Exports" not in [each.title for each in page.sections]


def test_a_card_labels_what_the_model_was_made_from(model):
    made_from = section(card_page(model_card(model, "plain", files={})), "What it was made from")
    assert made_from.paragraphs == []  # lambda was given
    data, parameters = made_from.tables
    assert data.columns == ["of the training data", ""]
    assert dict(data.rows)["features"] == str(ranking(1).n_features)
    assert not {name for name, _ in data.rows} & {name for name, _ in parameters.rows}
    assert parameters.columns == ["parameter of the ranker", ""]
    assert dict(parameters.rows)["n_features"] == "3"


def test_a_card_says_how_lambda_was_chosen():
    data = ranking(1)
    lambdas = [0.5, 2.0, 8.0]
    expected = {
        "Chosen from 3 values of lambda from 0.5 to 8 by ndcg@10 of cross-validation in 4 folds of "
        "queries (standard convention, rule best).": {"validation": 4},
        "Chosen from 3 values of lambda from 0.5 to 8 by ndcg@10 of 40 validation queries "
        "(standard convention, rule best).": {"validation": data},
        "Chosen from 3 values of lambda from 0.5 to 8 by squared_error of leave-query-out "
        "predictions (standard convention, rule best).": {
            "validation": "leave-query-out",
            "metric": "squared_error",
        },
    }
    for sentence, options in expected.items():
        tuned = dr.tune(data, lambdas, model="rankrls", **options)
        page = card_page(model_card(tuned.model, "tuned", files={}))
        assert section(page, "What it was made from").paragraphs == [sentence]
    tuned = dr.tune(data, {"forms": ["raw", "log"]}, max_features=2)
    page = card_page(model_card(tuned.model, "tuned", files={}))
    assert section(page, "What it was made from").paragraphs == [
        "Chosen from the forms raw; log with several values of lambda each by ndcg@10 of "
        "cross-validation in 5 folds of queries, made 2 times (standard convention, rule best).",
        f"Searches without parts of the queries score {tuned.held_out.score:.4f} on these parts, "
        f"with a standard error of {tuned.held_out.standard_error:.4f}.",
    ]
    ranker = dr.RankRLSCV(lambdas).fit(data)
    page = card_page(model_card(ranker.to_model(), "cv", files={}))
    assert ("lambda", f"{ranker.regularization_:g}") in page.facts
    assert section(page, "What it was made from").paragraphs == [
        "Chosen from 3 values of lambda from 0.5 to 8 by the squared leave-query-out error."
    ]


def test_a_card_of_a_first_night_has_no_challenger(model):
    judged = JUDGED | {"metrics": {"challenger": {"map": 0.25}}}
    page = card_page(model_card(model, "first", files={}, judged=judged))
    assert section(page, "How it was judged").tables[0].columns == ["mean", "model"]


def test_a_card_of_word_pairs():
    labels = ["sea", "sea", "wood", "wood"]
    documents = text_collection(["boat sail", "wave sail", "tree leaf", "bark leaf"], labels=labels)
    fitted = dr.BilinearRanker(1e-6, n_steps=500, learning_rate=1.0).fit(documents).to_model()
    card = model_card(fitted, "words", files={})
    assert (card["model"]["kind"], card["model"]["n_pairs"]) == ("bilinear", fitted.weights.nnz)
    weights = fitted.weights.toarray()
    for pair in card["model"]["pairs"]:
        place = fitted.words.index(pair["query_word"]), fitted.words.index(pair["word"])
        assert pair["weight"] == weights[place]
    assert "word of the query" in card_files(card)["card.html"]


@pytest.mark.parametrize("accepted", [True, False])
def test_a_verdict_without_a_word_for_the_decision(model, accepted):
    judged = {name: value for name, value in JUDGED.items() if name != "decision"}
    card = model_card(model, "v1", files={}, judged={**judged, "accepted": accepted})
    word = "accepted" if accepted else "rejected"
    assert card_page(card).facts[0] == ("verdict of the gate", word)
