"""The trec and standard conventions against public tools, letor4 against published figures."""

import shutil

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, ERR, RBP, RR, Bpref, Judged, P, R, Success, nDCG
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import dcg_score, ndcg_score, roc_auc_score

from dranking.metrics.evaluate import aggregate, evaluate_queries
from tests.metrics.blocks import flat, make_block

TREC = {
    "map": AP,
    "mrr": RR,
    "bpref": Bpref,
    **{f"hit@{k}": Success @ k for k in (1, 5, 10)},
    "ndcg": nDCG,
    **{f"p@{k}": P @ k for k in (1, 5, 10, 30)},
    **{f"recall@{k}": R @ k for k in (1, 5, 10, 30)},
    **{f"ndcg@{k}": nDCG @ k for k in (1, 3, 10, 30)},
}


def random_queries(rng, max_grade, n_queries=80):
    """Grades, tied scores and document ids of short and long lists; some without relevance."""
    sizes = rng.integers(1, 25, n_queries)
    relevance = [rng.integers(0, rng.integers(1, max_grade + 2), n).astype(float) for n in sizes]
    scores = [rng.integers(0, rng.integers(1, 30), n) / 7 for n in sizes]
    return relevance, scores


def qrels_and_run(relevance, scores, ids=None):
    """The judgements and the scores as ir_measures takes them."""
    qrels, run = [], []
    ids = ids or [[f"d{row}" for row in range(len(grades))] for grades in relevance]
    for q, (grades, values, names) in enumerate(zip(relevance, scores, ids, strict=True)):
        for grade, score, name in zip(grades, values, names, strict=True):
            if not np.isnan(grade):
                qrels.append(ir_measures.Qrel(str(q), name, int(grade)))
            run.append(ir_measures.ScoredDoc(str(q), name, float(score)))
    return qrels, run


def trec_values(relevance, scores, ids):
    """Per-query values of trec_eval."""
    qrels, run = qrels_and_run(relevance, scores, ids)
    evaluator = ir_measures.providers.registry["pytrec_eval"]
    found = {name: np.full(len(relevance), np.nan) for name in TREC}
    by_measure = {measure: name for name, measure in TREC.items()}
    for value in evaluator.iter_calc(list(TREC.values()), qrels, run):
        found[by_measure[value.measure]][int(value.query_id)] = value.value
    return found


@pytest.mark.parametrize("seed", range(5))
def test_trec_equals_trec_eval(seed):
    rng = np.random.default_rng(seed)
    relevance, scores = random_queries(rng, max_grade=4)
    for grades in relevance:  # unjudged documents
        grades[1:][rng.random(len(grades) - 1) < 0.1] = np.nan
        grades[1:][rng.random(len(grades) - 1) < 0.1] = -1  # as pools have unjudged documents
    ids = []
    for grades in relevance:
        numbers = rng.choice(200, len(grades), replace=False)
        ids.append([f"{'dDéz'[n % 4]}{n}" for n in numbers])
    block = make_block(relevance, doc_ids=[name for names in ids for name in names])
    found = evaluate_queries(block, flat(scores), list(TREC), "trec")
    for name, expected in trec_values(relevance, scores, ids).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-12, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("convention", ["trec", "standard"])
def test_a_document_of_negative_grade_is_not_judged_for_bpref(convention):
    block = make_block([[-1.0, 1.0, 0.0]], doc_ids=["b", "a", "c"])
    scores = np.array([3.0, 2.0, 1.0])
    expected = trec_values([np.array([-1.0, 1.0, 0.0])], [scores], [["b", "a", "c"]])["bpref"]
    assert expected == [1.0]
    assert evaluate_queries(block, scores, ["bpref"], convention)["bpref"] == expected


def test_judged_share_and_expected_reciprocal_rank_equal_their_tools():
    rng = np.random.default_rng(11)
    relevance = [rng.integers(0, 5, n).astype(float) for n in (1, 7, 12, 24)]
    relevance[2][3:8] = np.nan
    scores = [rng.permutation(len(grades)).astype(float) for grades in relevance]
    wanted = {"judged@5": Judged @ 5, "judged@20": Judged @ 20}
    if shutil.which("perl"):  # ir_measures runs gdeval.pl, which prints five decimals
        wanted |= {"err@1": ERR @ 1, "err@5": ERR @ 5, "err@20": ERR @ 20}
    qrels, run = qrels_and_run(relevance, scores)
    found = evaluate_queries(make_block(relevance), flat(scores), list(wanted), "trec")
    by_measure = {measure: name for name, measure in wanted.items()}
    n_compared = 0
    for value in ir_measures.iter_calc(list(wanted.values()), qrels, run):
        ours = found[by_measure[value.measure]][int(value.query_id)]
        assert ours == pytest.approx(value.value, abs=6e-6), (by_measure[value.measure], value)
        n_compared += 1
    assert n_compared == len(wanted) * len(relevance)


def test_rank_biased_precision_equals_cwl_eval():
    pytest.importorskip("cwl")
    rng = np.random.default_rng(12)
    relevance = [rng.integers(0, 4, n).astype(float) for n in (1, 2, 7, 12, 24, 60)]
    relevance[3][3:8] = np.nan  # unjudged documents
    relevance[4][:] = 0.0
    scores = [rng.permutation(len(grades)).astype(float) for grades in relevance]
    qrels, run = qrels_and_run(relevance, scores)
    found = evaluate_queries(make_block(relevance), flat(scores), ["rbp"], "trec")["rbp"]
    evaluator = ir_measures.providers.registry["cwl_eval"]
    theirs = {
        int(value.query_id): value.value
        for value in evaluator.iter_calc([RBP(p=0.8, rel=1)], qrels, run)
    }
    assert sorted(theirs) == [0, 1, 2, 3, 4, 5]
    np.testing.assert_allclose(found, [theirs[q] for q in sorted(theirs)], rtol=1e-9, atol=1e-12)


def test_trec__scores_tie_in_float32_and_integer_ids_compare_as_text():
    relevance = [[0.0, 1.0, 0.0]]
    scores = [[1.0 + 1e-9, 1.0, 1.0 - 1e-9]]
    block = make_block(relevance, doc_ids=[10, 9, 100])
    found = evaluate_queries(block, scores[0], list(TREC), "trec")
    for name, expected in trec_values(relevance, scores, [["10", "9", "100"]]).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-12, err_msg=name)
    assert found["map"][0] == 1.0


def test_trec__documents_without_ids_take_those_of_the_run_file():
    # Twelve tied documents: names 0-9, 0-8, ..., 0-2, 0-11, 0-10, 0-1, 0-0 in trec's order.
    relevance = [[0.0] * 11 + [1.0]]
    found = evaluate_queries(make_block(relevance), np.zeros(12), ["mrr"], "trec")
    assert found["mrr"][0] == pytest.approx(1 / 9)


@pytest.mark.parametrize("seed", range(3))
def test_standard_dcg_and_ndcg_equal_scikit_learn(seed):
    relevance, scores = random_queries(np.random.default_rng(seed), max_grade=4)
    cutoffs = {"": None, "@1": 1, "@5": 5, "@40": 40}
    tools = {"ndcg": ndcg_score, "dcg": dcg_score}
    names = {f"{stem}{at}": (tool, k) for stem, tool in tools.items() for at, k in cutoffs.items()}
    found = evaluate_queries(make_block(relevance), flat(scores), list(names), "standard")
    for q, (grades, values) in enumerate(zip(relevance, scores, strict=True)):
        for name, (tool, k) in names.items():
            if grades.max() == 0:
                assert np.isnan(found[name][q])
            elif len(grades) >= 2:
                expected = tool([2**grades - 1], [values], k=k)
                assert found[name][q] == pytest.approx(expected, rel=1e-12)


def test_auc_equals_scikit_learn():
    relevance, scores = random_queries(np.random.default_rng(0), max_grade=2)
    found = evaluate_queries(make_block(relevance), flat(scores), ["auc"], "standard")["auc"]
    for value, grades, values in zip(found, relevance, scores, strict=True):
        if 0 < (grades >= 1).sum() < len(grades):
            assert value == pytest.approx(roc_auc_score(grades >= 1, values), rel=1e-12)
        else:
            assert np.isnan(value)


@pytest.mark.parametrize(
    ("part", "published"),
    [
        ("S5", {"map": 0.4311, "p@10": 0.2333, "mean_ndcg": 0.4454, "ndcg@10": 0.1920}),
        ("S4", {"map": 0.5183, "p@10": 0.2484, "mean_ndcg": 0.5369, "ndcg@10": 0.2254}),
    ],
)
def test_letor4_gives_the_published_figures(mq2008, part, published):
    # Greedy RankRLS keeps feature 39 alone on folds 1 and 5 of MQ2008 (tables 7 to 10).
    features, relevance, qid = load_svmlight_file(
        str(mq2008 / f"{part}.txt"), n_features=46, query_id=True
    )
    starts = np.flatnonzero(np.r_[True, qid[1:] != qid[:-1]])
    block = make_block(np.split(relevance, starts[1:]))
    scores = features[:, 38].toarray().ravel()
    means = aggregate(evaluate_queries(block, scores, list(published), "letor4")).metrics
    assert {name: round(value, 4) for name, value in means.items()} == published
