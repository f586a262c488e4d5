"""Measures of a run beside judgements as plain loops, one query at a time, as trec_eval counts."""

import itertools
import math
import struct


def float32(score):
    return struct.unpack("f", struct.pack("f", score))[0]


def trec_order(run):
    """Documents by descending float32 score, then by descending id as bytes."""
    return sorted(run, key=lambda d: (float32(run[d]), d.encode()), reverse=True)


def all_orders(run):
    """Every order of the documents in which scores fall."""
    groups = []
    for score in sorted(set(run.values()), reverse=True):
        groups.append(list(itertools.permutations([d for d in run if run[d] == score])))
    for choice in itertools.product(*groups):
        yield [document for group in choice for document in group]


def gain(grade, gains):
    return 0.0 if grade < 0 else gains[grade]


def discounted(values):
    return sum(value / math.log2(rank + 1) for rank, value in enumerate(values, start=1))


def graded_value(stem, k, order, judged, gains):
    """ERR, DCG, nDCG and judged@k of one order."""
    first = order[:k]
    if stem == "judged":
        return sum(judged.get(d, -1) >= 0 for d in first) / len(first) if first else 0.0
    if stem == "err":
        goes_on, total = 1.0, 0.0
        for rank, d in enumerate(first, start=1):
            ends = (2 ** max(judged.get(d, 0), 0) - 1) / 16
            total += goes_on * ends / rank
            goes_on *= 1 - ends
        return total
    found = discounted(gain(judged.get(d, 0), gains) for d in first)
    if stem == "dcg":
        return found
    ideal = sorted((gain(grade, gains) for grade in judged.values()), reverse=True)[:k]
    return found / discounted(ideal)


def value_of_order(name, order, judged, level, gains):
    """One measure of one order; `judged` may have documents that are not in the order."""
    stem, _, cutoff = name.partition("@")
    k = int(cutoff) if cutoff else len(order) + len(judged)
    relevant = [d for d in judged if judged[d] >= level]
    hits = [rank for rank, d in enumerate(order, start=1) if d in relevant]
    within = [rank for rank in hits if rank <= k]
    if stem in ("judged", "err", "dcg", "ndcg"):
        return graded_value(stem, k, order, judged, gains)
    if stem == "bpref":
        return binary_preference(order, judged, relevant)
    return {
        "map": sum(n / rank for n, rank in enumerate(hits, start=1)) / len(relevant),
        "p": len(within) / k,
        "recall": len(within) / len(relevant),
        "hit": float(bool(within)),
        "mrr": 1 / within[0] if within else 0.0,
        "rbp": sum(0.2 * 0.8 ** (rank - 1) for rank in within),
    }[stem]


def binary_preference(order, judged, relevant):
    n_others = sum(0 <= grade for grade in judged.values()) - len(relevant)
    above, total = 0, 0.0
    for d in order:
        if d in relevant:
            total += 1 - (min(above, len(relevant)) / min(n_others, len(relevant)) if above else 0)
        elif judged.get(d, -1) >= 0:
            above += 1
    return total / len(relevant)


def value(name, run, judged, *, convention="trec", skip=False, last=False, level=1, gains=None):
    """A measure of one query; None where the standard convention leaves the query out."""
    gains = gains or [g if convention == "trec" else 2**g - 1 for g in range(32)]
    if skip:
        run = {d: score for d, score in run.items() if judged.get(d, -1) >= 0}
    if last:
        missing = {d: -math.inf for d in judged if d not in run}
        run = {**run, **missing}
    stem = name.partition("@")[0]
    if stem == "judged":
        counts = True
    elif stem in ("dcg", "ndcg"):
        counts = any(grade > 0 and gains[grade] > 0 for grade in judged.values())
    else:
        counts = any(grade >= (1 if stem == "err" else level) for grade in judged.values())
    if not counts:
        return 0.0 if convention == "trec" else None
    orders = [trec_order(run)] if convention == "trec" else list(all_orders(run))
    return sum(value_of_order(name, o, judged, level, gains) for o in orders) / len(orders)
