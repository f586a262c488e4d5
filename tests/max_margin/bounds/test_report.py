"""All bounds of a model on data, with caps and with values of the sample."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import dranking as dr
from dranking.max_margin.bounds.caps import Caps
from dranking.max_margin.bounds.report import risk_bounds
from dranking.max_margin.bounds.sample import measure_sample
from tests.max_margin.bounds.samples import WEIGHTS, all_sizes, model_of
from tests.models.problems import random_problem
from tests.reference import max_margin as reference


def test_every_statement_is_there_and_corrected_bounds_are_above_the_risk(dataset):
    ranker = dr.MaxMarginRanker(0.05, "ap").fit(dataset)
    report = risk_bounds(ranker.to_model(), dataset)
    statements = {bound.statement for bound in report.bounds}
    assert statements == {
        "theorem 3", "theorem 4", "corollary 1", "corollary 2", "corollary 3", "extension",
    }  # fmt: skip
    assert len(report.bounds) == 9 + 6 + 4
    risks = report.sample.risks
    for bound in report.bounds:
        kind = bound.case.split()[0]
        if "pairs" in bound.risk:
            observed = risks[f"{kind} {'weighted' if bound.version == 'weighted' else '0-1'}"]
        else:
            observed = risks["ndcg loss" if "NDCG" in bound.risk else "ap loss"]
        if bound.version != "printed":
            assert bound.empirical * math.exp(bound.log_scale) >= observed - 1e-12
        assert bound.value > bound.empirical
        assert bound.is_vacuous  # with twelve queries
    assert report.is_approximation
    json.dumps(report.as_json())


def test_caps_are_used_and_values_of_the_sample_are_labelled(dataset):
    model = model_of(dataset, WEIGHTS)
    caps = Caps(norm=3.0, feature_norm=10.0, max_documents=6, min_documents=2, n_levels=5)
    report = risk_bounds(model, dataset, caps=caps)
    assert not report.is_approximation
    assert {known.source for known in report.known.values()} == {"cap"}
    known = report.as_json()["known"]
    assert known["norm"] == {"value": 3.0, "source": "cap"}
    full = report["full pairwise", "printed"]
    assert math.exp(full.log_terms) == pytest.approx(14)  # sizes 2, 1, 1, 1, 1
    assert full.margin == 5
    expected = 14 * 4 * 3 * 10 / math.sqrt(report.sample.n_queries)
    assert math.exp(full.log_complexity) == pytest.approx(expected)
    multipartite = report["multipartite", "weighted"]
    assert multipartite.log_terms == full.log_terms
    assert multipartite.margin == 4
    assert math.exp(multipartite.log_ceiling) == pytest.approx(9 * 4)
    assert math.exp(report["bipartite", "printed"].log_terms) == pytest.approx(9)
    classes = report["listwise AP, by classes", "printed"]
    assert math.exp(classes.log_terms) == pytest.approx(20)
    assert report["arg-max AP", "union"].map_norm == 2.0

    partly = risk_bounds(model, dataset, caps=Caps(norm=3.0)).as_json()
    assert partly["approximation"]
    assert partly["known"]["norm"]["source"] == "cap"
    assert partly["known"]["feature_norm"]["source"] == "sample"
    assert "no document exceeds" in partly["known"]["feature_norm"]["note"]


@pytest.mark.parametrize("caps", [Caps(n_levels=2), Caps(3.0, 10.0, 6, 2, 2)])
def test_two_levels_have_the_bounds_of_the_bipartite_case(problem, caps):
    """N, K, hinges and ceilings, measured on the same data, are equal."""
    y = np.where(np.isnan(problem.y), np.nan, problem.y >= 1)
    dataset = problem._replace(y=y).dataset()
    report = risk_bounds(model_of(dataset, WEIGHTS), dataset, caps=caps)
    for version in ("printed", "weighted", "scaled"):
        a, b = report["multipartite", version], report["bipartite", version]
        assert replace(a, statement="", case="") == replace(b, statement="", case="")


SIZES = (8, 2, 2, 2)
"""Caps of the documents of each grade; the largest numbers in the data are 3, 2, 2 and 2."""


def test_level_sizes_bound_what_a_list_can_hold(dataset):
    caps = Caps(max_documents=8, n_levels=4, level_sizes=SIZES)
    report = risk_bounds(model_of(dataset, WEIGHTS), dataset, caps=caps)
    assert report.as_json()["known"]["level_sizes"] == {"value": SIZES, "source": "cap"}
    lists = all_sizes(8, SIZES)
    grades = [[g for g, n in enumerate(sizes) for _ in range(n)] for sizes in lists]
    pairs = [list(reference.margin_pairs(of_list, "levels", 4)) for of_list in grades]
    multipartite = report["multipartite", "weighted"]
    assert math.exp(multipartite.log_terms) == pytest.approx(max(map(len, pairs)))
    margins = max(sum(margin for *_, margin in of_list) for of_list in pairs)
    assert math.exp(multipartite.log_ceiling) == pytest.approx(margins)
    bipartite = report["bipartite", "weighted"]
    n_relevant = [(sum(n), sum(n[1:])) for n in lists]
    assert math.exp(bipartite.log_terms) == pytest.approx(max(k * (n - k) for n, k in n_relevant))
    assert bipartite.log_ceiling == pytest.approx(bipartite.log_terms)
    classes = report["listwise AP, by classes", "corrected"]
    assert math.exp(classes.log_terms) == pytest.approx(max(math.comb(n, k) for n, k in n_relevant))
    # Where relevance begins at grade 2, four documents at most are relevant.
    mslr = risk_bounds(model_of(dataset, WEIGHTS), dataset, caps=caps, convention="mslr")
    assert math.exp(mslr["bipartite", "weighted"].log_terms) == pytest.approx(4 * 4)
    few = replace(caps, level_sizes=(8, 2, 2, 2), max_documents=30)
    found = risk_bounds(model_of(dataset, WEIGHTS), dataset, caps=few)
    assert math.exp(found["bipartite", "weighted"].log_terms) == pytest.approx(8 * 6)
    without = risk_bounds(model_of(dataset, WEIGHTS), dataset, caps=replace(caps, level_sizes=None))
    assert "level_sizes" not in without.known
    for key in (("multipartite", "weighted"), ("bipartite", "weighted")):
        assert without[key].log_terms >= report[key].log_terms


@pytest.mark.parametrize(
    ("m", "sizes"), [(4, (4, 4, 4)), (5, (5, 5)), (4, (1,) * 4), (5, (3, 1, 2))]
)
def test_ceilings_are_the_risks_of_the_worst_ranking(m, sizes):
    """Over all lists under the caps, each ranked with the least relevant documents first."""
    r = len(sizes)
    lists = [
        [g for g, n in enumerate(each) for _ in range(n)]
        for each in all_sizes(m, sizes)
        if 2 <= sum(each)
    ]
    worst = {}
    for grades in lists:
        scores = [-float(grade) for grade in grades]
        for kind, margins, levels in (("full pairwise", "ranks", 0), ("multipartite", "levels", r)):
            risks = reference.pairwise_losses(scores, grades, margins, levels)
            for name, risk in zip(("printed", "weighted"), risks, strict=False):
                worst[kind, name] = max(risk, worst.get((kind, name), 0.0))
    grades = np.array(max(lists, key=lambda each: (len(each), len(set(each)))))
    X = np.eye(len(grades), 3, dtype=np.float32)
    dataset = dr.from_arrays(X, grades, qid=np.zeros(len(grades)))
    caps = Caps(max_documents=m, n_levels=r, level_sizes=sizes)
    report = risk_bounds(model_of(dataset, np.ones(3)), dataset, caps=caps)
    for key, risk in worst.items():
        assert math.exp(report[key].log_ceiling) == pytest.approx(risk)


def test_level_sizes_are_held_against_each_grade(problem, dataset):
    _, y, query_ptr, _ = problem.labelled()
    counts = [
        np.bincount(y[a:b].astype(int), minlength=4) for a, b in itertools.pairwise(query_ptr)
    ]
    most = np.max(counts, axis=0).tolist()
    model = model_of(dataset, WEIGHTS)
    assert measure_sample(model, dataset).level_sizes == tuple(most)
    for grade in range(4):
        # Documents in all fit the caps, so only the cap of the grade is exceeded.
        sizes = [9] * 4
        sizes[grade] = most[grade] - 1
        caps = Caps(max_documents=20, n_levels=4, level_sizes=tuple(sizes))
        with pytest.raises(
            dr.DataError, match=f"of grade {grade}, but a query of the data has {most[grade]}"
        ):
            risk_bounds(model, dataset, caps=caps)


@pytest.mark.timeout(120)
def test_a_list_too_long_for_the_arg_max_form_of_ndcg():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 2)).astype(np.float32)
    dataset = dr.from_arrays(X, rng.integers(0, 4, 10_000), qid=np.full(10_000, 17))
    report = risk_bounds(model_of(dataset, np.ones(2)), dataset)
    assert report.as_json()["too_long"].startswith("query 17 has 10,000 documents")
    assert report["arg-max NDCG", "contraction"].empirical is None
    assert report["arg-max NDCG", "contraction"].queries_needed is None
    assert report["arg-max AP", "contraction"].empirical > 0
    assert report["multipartite", "weighted"].empirical > 0


def test_lists_too_long_to_sum_have_all_other_bounds():
    problem = random_problem(1, n_queries=5, n_features=3, max_documents=40)
    dataset = problem._replace(weights=np.ones(5)).dataset()
    report = risk_bounds(model_of(dataset, WEIGHTS), dataset)
    theorem = report["listwise, 1 - NDCG", "corrected"]
    assert theorem.empirical is None
    assert theorem.is_vacuous
    assert theorem.queries_needed is None
    assert report["arg-max NDCG", "contraction"].empirical > 0


def test_a_sample_that_exceeds_a_cap_is_refused(dataset):
    model = model_of(dataset, WEIGHTS)
    for options, message in (
        ({"norm": 1.0}, "norm is 1, but the model has 1.87"),
        ({"feature_norm": 0.1}, "feature_norm is 0.1, but the data has"),
        ({"max_documents": 3}, "max_documents is 3, but the data has 5"),
        ({"min_documents": 4}, "min_documents is 4, but the data has a list of"),
        ({"n_levels": 2}, "with 2 levels it must be from 0 to 1"),
    ):
        with pytest.raises(dr.DataError, match=message):
            risk_bounds(model, dataset, caps=Caps(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, "delta is 0.0"),
        ({"caps": Caps(norm=-1.0)}, "norm is -1.0"),
        ({"caps": Caps(max_documents=1)}, "max_documents is 1"),
        ({"caps": Caps(level_sizes=(1, 2))}, "level_sizes needs n_levels"),
        ({"caps": Caps(level_sizes=(1,), n_levels=2, max_documents=3)}, "level_sizes is"),
        ({"convention": "letor5"}, "no evaluation convention"),
    ],
)
def test_wrong_arguments(dataset, options, message):
    with pytest.raises(dr.UsageError, match=message):
        risk_bounds(model_of(dataset, WEIGHTS), dataset, **options)


def test_weighted_queries_are_refused(problem):
    weighted = problem._replace(weights=np.arange(12.0)).dataset()
    with pytest.raises(dr.DataError, match="queries have different weights"):
        risk_bounds(model_of(weighted, WEIGHTS), weighted)


def test_data_without_labels_is_refused(problem):
    unlabelled = problem._replace(y=np.full(len(problem.y), np.nan)).dataset()
    with pytest.raises(dr.DataError, match="no labelled document"):
        risk_bounds(model_of(unlabelled, WEIGHTS), unlabelled)


def test_grades_that_are_not_whole_are_refused():
    """With r = 3, the margin of grades 0.1 and 0 is below the least margin 1/2 of corollary 1."""
    X = np.array([[1.0], [2.0], [0.0], [1.0]])
    dataset = dr.from_arrays(X, [1, 0, 0.1, 0], qid=["a", "a", "b", "b"])
    with pytest.raises(
        dr.DataError, match=r"query b has a document of relevance 0\.1; .* grades 0"
    ):
        risk_bounds(model_of(dataset, np.ones(1)), dataset, caps=Caps(n_levels=3))
