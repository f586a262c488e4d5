"""Empirical risks and sizes of a sample, against plain loops."""

import itertools
import math

import numpy as np
import pytest

from dranking.max_margin.bounds.sample import measure_sample
from tests.max_margin.bounds.samples import WEIGHTS, model_of
from tests.reference import max_margin as reference


def test_empirical_risks_are_those_of_the_definitions(problem, dataset):
    found = measure_sample(model_of(dataset, WEIGHTS), dataset)
    X, y, query_ptr, _ = problem.labelled()
    n_queries = len(query_ptr) - 1
    expected = dict.fromkeys(found.risks, 0.0)
    lengths = []
    for start, end in itertools.pairwise(query_ptr):
        grades = y[start:end].tolist()
        scores = (X[start:end].astype(float) @ WEIGHTS).tolist()
        relevant = [float(g >= 1) for g in grades]
        lengths.append(end - start)
        for kind, levels, margins, r in (
            ("full", grades, "ranks", 0),
            ("multipartite", grades, "levels", 4),
            ("bipartite", relevant, "levels", 2),
        ):
            losses = reference.pairwise_losses(scores, levels, margins, r)
            for name, loss in zip(("0-1", "weighted", "hinge"), losses, strict=True):
                expected[f"{kind} {name}"] += loss / n_queries
        for measure, gains in (("ap", relevant), ("ndcg", [2**g - 1 for g in grades])):
            if len(set(gains)) < 2:
                continue
            order = sorted(range(len(scores)), key=lambda i: -scores[i])
            places = [order.index(i) + 1 for i in range(len(scores))]
            expected[f"{measure} loss"] += reference.LOSSES[measure](gains, places) / n_queries
            expected[f"{measure} argmax"] += (
                reference.argmax_hinge(measure, scores, gains) / n_queries
            )
            expected[measure] += reference.sum_hinge(measure, scores, gains) / n_queries
            if measure == "ap":
                expected["ap classes"] += reference.class_sum_hinge("ap", scores, gains) / n_queries
    assert found.n_queries == n_queries
    assert found.risks == pytest.approx(expected, rel=1e-9)
    assert found.lengths == (min(n for n in lengths if n > 1), max(lengths))
    assert found.norm == pytest.approx(math.sqrt(1.5**2 + 1 + 0.25))
    assert found.feature_norm == pytest.approx(np.sqrt((X.astype(float) ** 2).sum(axis=1)).max())


def test_sizes_are_the_most_of_a_query(problem, dataset):
    """Number of pairs, sum of margins and number of classes, against plain loops."""
    found = measure_sample(model_of(dataset, WEIGHTS), dataset).maxima
    _, y, query_ptr, _ = problem.labelled()
    lists = [y[start:end].tolist() for start, end in itertools.pairwise(query_ptr)]
    for kind, margins, r in (("full", "ranks", 0), ("multipartite", "levels", 4)):
        pairs = [list(reference.margin_pairs(grades, margins, r)) for grades in lists]
        assert found[f"{kind} pairs"] == max(map(len, pairs))
        most = max(sum(margin for *_, margin in of_list) for of_list in pairs)
        assert found[f"{kind} margins"] == pytest.approx(most)
    relevant = [(len(grades), sum(g >= 1 for g in grades)) for grades in lists]
    assert found["bipartite pairs"] == max(k * (n - k) for n, k in relevant)
    assert found["classes"] == pytest.approx(math.log(max(math.comb(n, k) for n, k in relevant)))
