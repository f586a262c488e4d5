"""RankLib's linear regression, which Elasticsearch's and OpenSearch's plugins read, too.

Source: the classes `learning.LinearRegRank` and `learning.RankerFactory` of RankLib, and
`ranker.ranklib.RanklibModelParser` of the plugins, which hands a ``model/ranklib`` to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dranking.errors import UsageError, listed
from dranking.models.export.terms import Term

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


def ranklib(terms: Sequence[Term], name: str) -> str:
    """Write a model file: a constant and a weight for each number of a feature, in float64.

    RankLib has no normalisers, so that the weights are those of raw values, and the constant holds
    the means.

    Raises
    ------
    UsageError
        If the name of a feature is not its number, from 1.
    """
    bad = [term.name for term in terms if not _NUMBER.fullmatch(term.name)]
    if bad:
        raise UsageError(
            f"RankLib knows features by their numbers, and the model has {listed(bad)}. Give the "
            'numbers with --feature-names, a JSON file such as {"title": "1"} (for retrain '
            "export.feature_names): those of the LETOR file, and in Elasticsearch and OpenSearch "
            "the place of each feature in the feature set, from 1."
        )
    constant = sum((-term.weight * term.mean / term.scale for term in terms), 0.0)
    weights = [f"{term.name}:{term.weight / term.scale!r}" for term in terms]
    return "\n".join(
        ["## Linear Regression", f"## Name = {name}", " ".join([f"0:{constant!r}", *weights]), ""]
    )
