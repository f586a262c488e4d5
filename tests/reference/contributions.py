"""Contributions of features to a linear score, by plain loops."""


def contributions_of(rows, query_ids, weights, is_scaled):
    """Weight times value of each feature; scaled to [0, 1] within each query, 0 where all agree."""
    table = []
    for row, query in zip(rows, query_ids, strict=True):
        contributions = []
        for j, weight in enumerate(weights):
            value = row[j]
            if is_scaled:
                others = [x[j] for x, q in zip(rows, query_ids, strict=True) if q == query]
                low, high = min(others), max(others)
                value = (value - low) / (high - low) if high > low else 0.0
            contributions.append(weight * value)
        table.append(contributions)
    return table
