"""Kernels of pairwise rankers: sums over all pairs of a query, and steps on drawn pairs.

A pair (a, b) has the difference p = x_a - x_b; all losses are functions of the score gap <w, p>.

Sums over all pairs of a query with different relevance:

- `pair_sums`: squared hinges, and sums over active pairs, in O(l log l) for l documents;
- `shortfalls`: the plain hinge, and the corner of a rounded hinge;
- `logistic`: the logistic loss, pair by pair.

Steps on drawn pairs:

- `alias_table`: draws from any distribution in O(1), and draws of pairs;
- `differences`: difference vectors of dense or sparse rows;
- `sgd`: the steps of SPD on w = s v with lazy decay, and the mean of the iterates;
- `coregularised`: the steps of LCRA, in which views are drawn together on unlabelled pairs.

``dranking/pairwise/THEORY.md`` has objectives and updates.
"""
