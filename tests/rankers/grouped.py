"""Rankers that take steps, from all their options by name, as tables of test cases have them."""

from typing import Any

import dranking as dr
from dranking.cli.options.max_margin import with_solver
from dranking.cli.options.pairwise import in_groups


def spd(*args: Any, **options: Any) -> dr.SPD:
    """`SPD` with the options of its steps and pairs."""
    return dr.SPD(*args, **in_groups(options))


def lcra(*args: Any, **options: Any) -> dr.LCRA:
    """`LCRA` with the options of its steps and pairs."""
    return dr.LCRA(*args, **in_groups(options))


def max_margin(*args: Any, **options: Any) -> dr.MaxMarginRanker:
    """`MaxMarginRanker` with the options of its solver."""
    return dr.MaxMarginRanker(*args, **with_solver(options))


GREEDY = {
    "search": {
        "search": "kind",
        "fitting": "fitting",
        "patience": "patience",
        "candidates": "candidates",
        "random_state": "random_state",
    },
    "rescore": {
        "rescore": "measure",
        "rescore_candidates": "n_candidates",
        "convention": "convention",
    },
    "feature_costs": {"feature_costs": "costs", "feature_groups": "groups", "budget": "budget"},
    "forms": {"forms": "names", "forms_per_feature": "per_feature"},
    "passes": {"prefetch": "prefetch", "feature_blocks": "feature_blocks"},
}
"""Parameters of `GreedyRankRLS` that are groups: names here, and in the group."""

CLASSES = {
    "search": dr.Search,
    "rescore": dr.Rescore,
    "feature_costs": dr.Costs,
    "forms": dr.Forms,
    "passes": dr.Passes,
}


def greedy(*args: Any, **options: Any) -> dr.GreedyRankRLS:
    """`GreedyRankRLS` with the options of its search, costs, forms and passes."""
    groups = {}
    for group, names in GREEDY.items():
        found = {inner: options.pop(name) for name, inner in names.items() if name in options}
        if found:
            groups[group] = CLASSES[group](**found)
    return dr.GreedyRankRLS(*args, **options, **groups)
