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


def expected_reciprocal_rank(grades, k):
    """The user ends at grade r with probability (2^r - 1) / 16."""
    arrives, total = 1.0, 0.0
    for rank, grade in enumerate(grades[:k], start=1):
        ends = (2.0**grade - 1.0) / 16.0
        total += arrives * ends / rank
        arrives *= 1.0 - ends
    return total


def hit_at(grades, k, convention):
    return 1.0 if any(is_relevant(g, convention) for g in grades[:k]) else 0.0


def rank_biased_precision(grades, k, convention):
    total = 0.0
    for rank, grade in enumerate(grades[:k], start=1):
        if is_relevant(grade, convention):
            total += 0.2 * 0.8 ** (rank - 1)
    return total


def binary_preference(grades, convention):
    """`grades` in rank order, NaN or negative where a document is not judged."""
    judged = [g for g in grades if g >= 0]
    n_relevant = sum(is_relevant(g, convention) for g in judged)
    n_irrelevant = len(judged) - n_relevant
    total, above = 0.0, 0
    for grade in judged:
        if not is_relevant(grade, convention):
            above += 1
        elif above == 0:
            total += 1.0
        else:
            total += 1.0 - min(above, n_relevant) / min(n_relevant, n_irrelevant)
    return total / n_relevant if n_relevant else 0.0


def judged_at(grades, k):
    first = grades[:k]
    return sum(not math.isnan(g) for g in first) / len(first)


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
    if stem == "dcg":
        return dcg_at(grades, k, convention)
    if stem == "p":
        return precision_at(grades, k, convention)
    if stem == "recall":
        return recall_at(grades, k, convention)
    if stem == "mrr":
        return reciprocal_rank(grades, k, convention)
    if stem == "err":
        return expected_reciprocal_rank(grades, k)
    if stem == "hit":
        return hit_at(grades, k, convention)
    if stem == "rbp":
        return rank_biased_precision(grades, k, convention)
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


def judged_measure(name, relevance, scores, convention):
    """bpref or judged@k, in file order or averaged over the orders of equal scores."""
    averaged = convention not in LETOR
    excluded = not any(is_relevant(g, convention) for g in relevance)
    if averaged and excluded and name == "bpref":
        return None
    values = []
    for order in orders(scores) if averaged else [file_order(scores)]:
        grades = [relevance[row] for row in order]
        if name == "bpref":
            values.append(binary_preference(grades, convention))
        else:
            values.append(judged_at(grades, int(name.partition("@")[2])))
    return sum(values) / len(values)


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
    if name.partition("@")[0] in ("bpref", "judged"):
        return judged_measure(name, relevance, scores, convention)
    if convention in LETOR:
        return measure_of_order(name, [grades[row] for row in file_order(scores)], convention)
    if not any(is_relevant(g, convention) for g in grades):
        return None
    values = [
        measure_of_order(name, [grades[row] for row in order], convention)
        for order in orders(scores)
    ]
    return sum(values) / len(values)
