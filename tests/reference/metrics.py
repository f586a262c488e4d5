"""Ranking measures as plain loops, one query at a time, as the definitions read."""

import itertools
import math

LETOR = {"letor3", "letor4", "mslr"}


def gain(grade, convention):
    return grade if convention == "trec" else 2.0**grade - 1.0


def discount(rank, convention):
    if convention in LETOR:
        return 1.0 if rank <= 2 else 1.0 / math.log2(rank)
    return 1.0 / math.log2(rank + 1)


def is_relevant(grade, convention):
    return grade >= (2 if convention == "mslr" else 1)


def dcg_at(grades, k, convention):
    total = 0.0
    for rank in range(1, min(k, len(grades)) + 1):
        total += gain(grades[rank - 1], convention) * discount(rank, convention)
    return total


def ndcg_at(grades, k, convention):
    if convention in LETOR and k > len(grades):
        return 0.0
    ideal = dcg_at(sorted(grades, reverse=True), k, convention)
    return dcg_at(grades, k, convention) / ideal if ideal > 0 else 0.0


def mean_ndcg(grades, convention):
    return sum(ndcg_at(grades, k, convention) for k in range(1, len(grades) + 1)) / len(grades)


def precision_at(grades, k, convention):
    if convention == "letor3" and k > len(grades):
        return 0.0
    return sum(is_relevant(g, convention) for g in grades[:k]) / k


def recall_at(grades, k, convention):
    n_relevant = sum(is_relevant(g, convention) for g in grades)
    n_found = sum(is_relevant(g, convention) for g in grades[:k])
    return n_found / n_relevant if n_relevant else 0.0


def average_precision(grades, convention):
    found, total = 0, 0.0
    for rank, grade in enumerate(grades, start=1):
        if is_relevant(grade, convention):
            found += 1
            total += found / rank
    return total / found if found else 0.0


def reciprocal_rank(grades, k, convention):
    for rank, grade in enumerate(grades[:k], start=1):
        if is_relevant(grade, convention):
            return 1.0 / rank
    return 0.0


def pairwise_error(grades, scores):
    """None where no pair of documents has different grades."""
    errors, pairs = 0.0, 0
    for j in range(len(grades)):
        for k in range(len(grades)):
            if grades[j] < grades[k]:
                pairs += 1
                if scores[j] > scores[k]:
                    errors += 1.0
                elif scores[j] == scores[k]:
                    errors += 0.5
    return errors / pairs if pairs else None


def area_under_curve(grades, scores, convention):
    labels = [1 if is_relevant(g, convention) else 0 for g in grades]
    error = pairwise_error(labels, scores)
    return None if error is None else 1.0 - error


def measure_of_order(name, grades, convention):
    """Value of a measure for grades already in rank order."""
    stem, _, cutoff = name.partition("@")
    k = int(cutoff) if cutoff else len(grades)
    if stem == "ndcg":
        return ndcg_at(grades, k, convention)
    if stem == "p":
        return precision_at(grades, k, convention)
    if stem == "recall":
        return recall_at(grades, k, convention)
    if stem == "mrr":
        return reciprocal_rank(grades, k, convention)
    return {"map": average_precision, "mean_ndcg": mean_ndcg}[stem](grades, convention)


def file_order(scores):
    """Row numbers by descending score; among equal scores, earlier rows first."""
    order = []
    for row in range(len(scores)):
        place = len(order)
        while place > 0 and scores[order[place - 1]] < scores[row]:
            place -= 1
        order.insert(place, row)
    return order


def orders(scores):
    """All orders by descending score: every permutation of every group of equal scores."""
    groups = []
    for value in sorted(set(scores), reverse=True):
        rows = [row for row in range(len(scores)) if scores[row] == value]
        groups.append(list(itertools.permutations(rows)))
    for choice in itertools.product(*groups):
        yield [row for group in choice for row in group]


def evaluate(name, relevance, scores, convention):
    """Value of a measure for one query under letor3, letor4, mslr or standard; None if excluded.

    Unlabelled documents (NaN) have grade 0; a query of only such documents is excluded.
    """
    if all(math.isnan(r) for r in relevance):
        return None
    grades = [0.0 if math.isnan(r) else r for r in relevance]
    if name == "pairwise_error":
        return pairwise_error(grades, scores)
    if name == "auc":
        return area_under_curve(grades, scores, convention)
    if convention in LETOR:
        return measure_of_order(name, [grades[row] for row in file_order(scores)], convention)
    if not any(is_relevant(g, convention) for g in grades):
        return None
    values = [
        measure_of_order(name, [grades[row] for row in order], convention)
        for order in orders(scores)
    ]
    return sum(values) / len(values)
