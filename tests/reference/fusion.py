"""Fusion of runs by plain loops over dictionaries from query to document to score."""

import statistics


def fused(runs, method, normalize="min-max", k=60):
    """A dictionary from query to document to fused score."""
    found = {}
    for query in {query: None for run in runs for query in run}:
        lists = [run.get(query, {}) for run in runs]
        found[query] = {}
        for document in {document: None for scores in lists for document in scores}:
            there = [scores for scores in lists if document in scores]
            if method == "rrf":
                total = sum(1 / (k + rank(scores, document)) for scores in there)
            else:
                total = sum(normalised(scores, normalize)[document] for scores in there)
            found[query][document] = total * (len(there) if method == "combmnz" else 1)
    return found


def rank(scores, document):
    """The rank from 1: descending score, and descending id among equal scores."""
    order = sorted(scores, key=lambda each: (scores[each], each.encode()), reverse=True)
    return 1 + order.index(document)


def normalised(scores, kind):
    values = list(scores.values())
    low, high = min(values), max(values)
    if kind == "none":
        return scores
    if low == high:
        return dict.fromkeys(scores, 0.0)
    if kind == "zmuv":
        mean, deviation = statistics.fmean(values), statistics.pstdev(values)
        return {document: (score - mean) / deviation for document, score in scores.items()}
    unit = high - low if kind == "min-max" else sum(score - low for score in values)
    return {document: (score - low) / unit for document, score in scores.items()}
