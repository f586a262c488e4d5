import numpy as np
import pyarrow as pa
import pytest

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError, UsageError
from dranking.metrics import evaluate
from dranking.metrics.conventions import CONVENTIONS, get_convention
from dranking.metrics.evaluate import aggregate, evaluate_models, evaluate_queries
from tests.metrics.blocks import make_block

ALL = ["map", "p@2", "ndcg", "ndcg@2", "mean_ndcg", "mrr", "mrr@1", "pairwise_error", "auc"]
NAN = float("nan")


def values_of(relevance, scores, convention, measures=ALL):
    found = evaluate_queries(make_block([relevance]), scores, measures, convention)
    return {name: values[0] for name, values in found.items()}


def test_names_are_lower_case_and_computed_once():
    found = evaluate_queries(make_block([[1.0]]), [0.5], ["MAP", "P@3", "map"])
    assert list(found) == ["map", "p@3"]


def test_short_lists_differ_by_convention():
    # One relevant document, k = 2 beyond the list.
    expected = {
        "letor4": {"ndcg@2": 0.0, "p@2": 0.5},
        "letor3": {"ndcg@2": 0.0, "p@2": 0.0},
        "mslr": {"ndcg@2": 0.0, "p@2": 0.5},
        "trec": {"ndcg@2": 1.0, "p@2": 0.5},
        "standard": {"ndcg@2": 1.0, "p@2": 0.5},
    }
    for convention, values in expected.items():
        assert values_of([2.0], [0.1], convention, list(values)) == values


def test_query_with_one_relevant_document():
    found = values_of([1.0], [0.3], "standard")
    assert found.pop("p@2") == 0.5
    assert np.isnan([found.pop("pairwise_error"), found.pop("auc")]).all()
    assert set(found.values()) == {1.0}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_no_relevant_document(convention):
    found = values_of([0.0, 0.0], [0.2, 0.1], convention)
    assert np.isnan([found.pop("pairwise_error"), found.pop("auc")]).all()
    if convention == "standard":
        assert np.isnan(list(found.values())).all()
    else:
        assert set(found.values()) == {0.0}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_all_grades_equal_and_relevant(convention):
    found = values_of([2.0, 2.0, 2.0], [0.2, 0.1, 0.1], convention)
    assert np.isnan([found.pop("pairwise_error"), found.pop("auc")]).all()
    np.testing.assert_allclose(list(found.values()), 1.0, rtol=1e-15)


def test_all_scores_tied():
    found = values_of([0.0, 1.0], [0.5, 0.5], "standard")
    discount = 1 / np.log2(3)
    expected = {
        "map": 0.75,
        "p@2": 0.5,
        "ndcg": (1 + discount) / 2,
        "ndcg@2": (1 + discount) / 2,
        "mean_ndcg": (0.5 + (1 + discount) / 2) / 2,
        "mrr": 0.75,
        "mrr@1": 0.5,
        "pairwise_error": 0.5,
        "auc": 0.5,
    }
    assert found == pytest.approx(expected, rel=1e-14)
    in_file_order = values_of([0.0, 1.0], [0.5, 0.5], "letor4")
    assert in_file_order["map"] == in_file_order["mrr"] == 0.5
    assert in_file_order["pairwise_error"] == 0.5


def test_mslr_takes_grades_from_2_as_relevant():
    found = values_of([1.0, 2.0], [0.9, 0.1], "mslr")
    assert found["map"] == found["mrr"] == found["p@2"] == 0.5
    assert found["auc"] == 0.0


def test_unlabelled_documents_count_as_not_relevant():
    scores = [0.9, 0.5, 0.1]
    for convention in CONVENTIONS:
        with_nan = values_of([NAN, 2.0, 0.0], scores, convention)
        assert with_nan == values_of([0.0, 2.0, 0.0], scores, convention)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_queries_without_labels_are_excluded(convention):
    block = make_block([[NAN, NAN], [2.0, 0.0]])
    found = evaluate_queries(block, [4.0, 3.0, 2.0, 1.0], ALL, convention)
    for values in found.values():
        assert np.isnan(values).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.float16])
def test_score_types(dtype):
    scores = np.array([2, 1, 3], dtype=dtype)
    assert values_of([0.0, 0.0, 1.0], scores, "letor4")["map"] == 1.0


def test_infinite_scores_rank_at_the_ends():
    for convention in CONVENTIONS:
        found = values_of([0.0, 2.0, 0.0], [-np.inf, np.inf, 1e300], convention, ["mrr"])
        # trec compares as float32, where 1e300 is infinite too; "0-2" precedes "0-1".
        assert found["mrr"] == (0.5 if convention == "trec" else 1.0)


def test_read_only_arrays():
    block = make_block([[0.0, 2.0], [2.0]])
    scores = np.array([0.1, 0.2, 0.3])
    for array in (block.relevance, block.query_ptr, scores):
        array.flags.writeable = False
    for convention in CONVENTIONS:
        assert evaluate_queries(block, scores, ["map"], convention)["map"].tolist() == [1.0, 1.0]


def test_block_without_queries():
    empty = QueryBlock(
        features=np.zeros((0, 1), dtype=np.float32),
        relevance=np.empty(0),
        query_ptr=np.zeros(1, dtype=np.int64),
        query_ids=pa.array([], pa.int64()),
    )
    found = evaluate_queries(empty, np.empty(0), ["map", "auc"])
    assert [values.shape for values in found.values()] == [(0,), (0,)]


def test_nan_score_names_the_query():
    block = make_block([[1.0], [0.0, 1.0]], query_ids=["first", "second"])
    with pytest.raises(DataError, match=r"query second: the score of document 1 .* is NaN"):
        evaluate_queries(block, [0.1, 0.2, NAN], ["map"])


@pytest.mark.parametrize("scores", [[0.1], [[0.1, 0.2]]])
def test_scores_of_the_wrong_shape(scores):
    with pytest.raises(ValueError, match=r"scores has shape .* the block has 2 documents"):
        evaluate_queries(make_block([[0.0, 1.0]]), scores, ["map"])


def test_grades_too_large_for_the_exponential_gain():
    block = make_block([[1.0], [0.0, 5000.0]], query_ids=[3, 8])
    with pytest.raises(DataError, match="query 8: relevance 5000 is too large"):
        evaluate_queries(block, [0.1, 0.2, 0.3], ["ndcg"], "letor4")
    assert evaluate_queries(block, [0.1, 0.2, 0.3], ["ndcg"], "trec")["ndcg"][1] == 1.0


def test_unknown_convention():
    with pytest.raises(UsageError, match="no evaluation convention 'best'"):
        evaluate_queries(make_block([[1.0]]), [0.1], ["map"], "best")


def test_aggregate__leaves_out_excluded_queries():
    summary = aggregate(
        {"map": np.array([1.0, NAN, 0.5]), "auc": np.array([NAN, 0.25, 0.75])},
    )
    assert summary.metrics == {"map": 0.75, "auc": 0.5}
    assert summary.n_queries == 3
    assert summary.excluded == {"map": 1, "auc": 1}


def test_aggregate__weights_multiply():
    weights = np.array([3.0, 5.0, 1.0])
    summary = aggregate({"map": np.array([1.0, NAN, 0.0])}, weights)
    assert summary.metrics == {"map": 0.75}


def test_aggregate__mean_over_no_queries_is_null_in_json():
    for weights in (None, np.zeros(2)):
        summary = aggregate({"map": np.array([NAN, NAN])}, weights)
        assert summary.as_json() == {
            "metrics": {"map": None},
            "n_queries": 2,
            "excluded": {"map": 2},
        }
    assert aggregate({"map": np.empty(0)}).n_queries == 0
    assert np.isnan(aggregate({"map": np.ones(2)}, np.zeros(2)).metrics["map"])


def test_aggregate__lengths_must_agree():
    with pytest.raises(ValueError, match="differ in length"):
        aggregate({"map": np.zeros(2), "auc": np.zeros(3)})
    with pytest.raises(ValueError, match="differ in length"):
        aggregate({"map": np.zeros(2)}, np.ones(1))


@pytest.mark.parametrize("doc_ids", [None, ["b", "a", "d", "c", "e", "f"]])
@pytest.mark.parametrize("convention", ["trec", "letor4"])
@pytest.mark.parametrize("most", [1, 20, 100])
def test_models_together_have_the_values_of_each(convention, doc_ids, most, monkeypatch):
    monkeypatch.setattr(evaluate, "MOST_DOCUMENTS", most)
    block = make_block([[2.0, 0.0, 1.0], [np.nan], [0.0, 1.0]], ["q", "r", "s"], doc_ids)
    scores = np.random.default_rng(0).integers(0, 2, (7, 6)).astype(np.float64)  # many ties
    how = get_convention(convention)
    found = evaluate_models(block, scores, "ndcg@2", how)
    each = [evaluate_queries(block, row, ["ndcg@2"], how)["ndcg@2"] for row in scores]
    np.testing.assert_array_equal(found, each)
