"""Pairs of documents, listed one by one."""

import math


def labelled_pairs(relevance, query_ptr, weights, balance="pairs", positions="equal"):
    """{(better, worse): probability} of all pairs of one query with different relevance."""
    mass = {}
    for q in range(len(query_ptr) - 1):
        documents = [
            d for d in range(query_ptr[q], query_ptr[q + 1]) if not math.isnan(relevance[d])
        ]
        of_query = {
            (a, b): ideal_discount(relevance, documents, a) if positions == "dcg" else 1.0
            for a in documents
            for b in documents
            if relevance[a] > relevance[b]
        }
        add_query(mass, of_query, weights[q], balance)
    return normalised(mass)


def unlabelled_pairs(relevance, query_ptr, weights, balance="pairs", ignore_labels=False):
    """{(earlier, later): probability} of all pairs of unlabelled documents of one query."""
    mass = {}
    for q in range(len(query_ptr) - 1):
        documents = [
            d
            for d in range(query_ptr[q], query_ptr[q + 1])
            if ignore_labels or math.isnan(relevance[d])
        ]
        of_query = {(a, b): 1.0 for a in documents for b in documents if a < b}
        add_query(mass, of_query, weights[q], balance)
    return normalised(mass)


def add_query(mass, of_query, weight, balance):
    total = sum(of_query.values()) if balance == "queries" else 1.0
    for pair, value in of_query.items():
        mass[pair] = weight * value / total


def ideal_discount(relevance, documents, document):
    """Mean of 1 / log2(1 + rank) over the ranks that the document's grade may have."""
    above = sum(relevance[d] > relevance[document] for d in documents)
    same = sum(relevance[d] == relevance[document] for d in documents)
    return sum(1 / math.log2(1 + rank) for rank in range(above + 1, above + same + 1)) / same


def normalised(mass):
    total = sum(mass.values())
    return {pair: value / total for pair, value in mass.items() if value > 0}


def objective(differences, labels, masses, weights, regularization, loss):
    """Mean loss over listed pairs, by their masses, plus lambda / 2 |w|^2; NumPy arrays."""
    losses = loss(labels, differences @ weights)
    return masses @ losses / masses.sum() + regularization / 2 * weights @ weights
