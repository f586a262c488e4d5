import pytest

from dranking.errors import UsageError
from dranking.metrics.measures.by_name import get_measure, get_measures, higher_is_better


@pytest.mark.parametrize(
    ("written", "name", "cutoff"),
    [
        ("MAP", "map", None),
        ("P@5", "p@5", 5),
        ("Recall@5", "recall@5", 5),
        ("ndcg@010", "ndcg@10", 10),
        (" NDCG ", "ndcg", None),
        ("Mean_NDCG", "mean_ndcg", None),
        ("mrr", "mrr", None),
        ("mrr@3", "mrr@3", 3),
        ("pairwise_error", "pairwise_error", None),
        ("AUC", "auc", None),
    ],
)
def test_get_measure(written, name, cutoff):
    measure = get_measure(written)
    assert (measure.name, measure.cutoff) == (name, cutoff)


@pytest.mark.parametrize("written", ["cg", "map@5", "auc@2", "", "@10", "precision@10"])
def test_get_measure__unknown(written):
    known = "map, p@K, recall@K, hit@K, ndcg, ndcg@K, dcg, dcg@K, mean_ndcg, mrr, mrr@K"
    with pytest.raises(UsageError, match=known):
        get_measure(written)


@pytest.mark.parametrize("written", ["p@0", "ndcg@-1", "ndcg@ten", "ndcg@", "mrr@1.5", "p@²"])
def test_get_measure__bad_cutoff(written):
    with pytest.raises(UsageError, match="must be a whole number of at least 1"):
        get_measure(written)


def test_get_measure__precision_needs_a_cutoff():
    with pytest.raises(UsageError, match="for example p@10"):
        get_measure("p")


def test_get_measures__each_once_in_order():
    assert [m.name for m in get_measures(["ndcg@5", "MAP", "NDCG@5"])] == ["ndcg@5", "map"]


def test_get_measures__one_text():
    assert [m.name for m in get_measures("NDCG@10")] == ["ndcg@10"]
    assert [m.name for m in get_measures("map, P(rel=2)@3,MAP")] == ["map", "p(rel=2)@3"]
    for several in ("map,ndcg@10", ["map"]):
        with pytest.raises(UsageError, match="name one, for example ndcg@10"):
            get_measure(several)
    with pytest.raises(UsageError, match="no metric 'ndcg10'"):
        get_measures("ndcg10")


def test_get_measures__none():
    with pytest.raises(UsageError, match="no metric was asked for"):
        get_measures([])


def test_higher_is_better():
    assert higher_is_better("ndcg@10")
    assert higher_is_better("my_own_measure")
    assert not higher_is_better("pairwise_error")
