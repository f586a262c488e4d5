"""Interleaving: one list from the lists of two rankers, and credit for clicks on its documents.

For the serving side: lists of document ids in, one list out, with the credit that a click on each
document gives; no import beyond Python's standard library. A page shows `documents`, the log keeps
`teams` and `shares`, and `preference` turns the clicks on a page into one number in [0, 1], which
`dranking interleave analyse` takes.

- Team-draft (Radlinski, Kurup, Joachims, How does clickthrough data reflect retrieval quality?,
  CIKM 2008, algorithm 2): as two captains pick teams. In every round a coin decides who picks
  first; each ranker picks its first document that is not yet on the page.
- Probabilistic (Hofmann, Whiteson, de Rijke, A probabilistic method for inferring preferences from
  clicks, CIKM 2011, sections 4.1 and 4.2): for every position a coin chooses a ranker, which draws
  a document with probability proportional to 1 / rank^tau among the documents that are left. The
  credit of a click is the probability that each ranker placed the document, given the list.

Conditions. Users that click without regard to the documents, at whatever positions, prefer neither
ranker: the mean of `preference` is 1/2 exactly, because both methods treat the two rankers alike.
Team-draft may miss that a ranker is better: for lists (1, 2, 3) and (2, 3, 1) whose document 3
alone is clicked, the mean is 1/2 on pages of three. The probabilistic method finds such
differences, at the price of pages that neither ranker would show. A document that is absent from a
list has probability 0 under its ranker.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from random import Random
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from dranking.errors import UsageError

Id = TypeVar("Id", bound=Hashable)
Team: TypeAlias = Literal["a", "b"]

TEAMS: tuple[Team, Team] = ("a", "b")

TAU = 3.0
"""The exponent of the paper."""

MOST_TAU = 50.0
"""Above this exponent the masses of long lists are too small for floating-point numbers."""


class Interleaved(NamedTuple, Generic[Id]):
    """A page, and the credit of clicks on it.

    Attributes
    ----------
    documents
        Ids in the order of the page; no document is on the page twice.
    teams
        The ranker that placed each document; None where the other ranker had no documents left.
    shares
        Share of ranker b in a click on each document, in [0, 1]; None means that a click counts
        for neither.
    """

    documents: tuple[Id, ...]
    teams: tuple[Team | None, ...]
    shares: tuple[float | None, ...]


def team_draft(a: Sequence[Id], b: Sequence[Id], length: int, rng: Random) -> Interleaved[Id]:
    """Interleave two lists as two captains pick teams.

    Parameters
    ----------
    a, b
        Document ids of each ranker, the best first.
    length
        Number of documents of the page. Where one ranker has no document left, the other fills the
        page. Unless both lists have the same documents, clicks count at as many positions as the
        shorter list is long: there, whatever the coins, both rankers have a document left when a
        coin is thrown, and each round gives one document to each of them. At later positions the
        coins of earlier rounds decide whether a ranker has documents left.
    rng
        Generator of the coins; `random.Random(seed)` repeats a page.

    Raises
    ------
    UsageError
        If `length` is below 1, or a list names a document twice.
    """
    _check(a, b, length)
    left: dict[Team, list[Id]] = {"a": list(reversed(a)), "b": list(reversed(b))}
    picks = {"a": 0, "b": 0}
    page: list[Id] = []
    teams: list[Team | None] = []
    shown: set[Id] = set()
    while len(page) < length:
        for ranking in left.values():
            while ranking and ranking[-1] in shown:
                ranking.pop()
        able = [team for team, ranking in left.items() if ranking]
        if not able:
            break
        if len(able) == 2 and picks["a"] == picks["b"]:
            picker = able[rng.random() >= 0.5]
        else:
            picker = min(able, key=picks.__getitem__)
        picks[picker] += 1
        page.append(left[picker].pop())
        shown.add(page[-1])
        teams.append(picker if len(able) == 2 else None)
    n_credited = len(page) if set(a) == set(b) else min(len(a), len(b))
    shares = [None if team is None else float(team == "b") for team in teams[:n_credited]]
    shares += [None] * (len(page) - len(shares))
    return Interleaved(tuple(page), tuple(teams), tuple(shares))


def probabilistic(
    a: Sequence[Id], b: Sequence[Id], length: int, rng: Random, *, tau: float = TAU
) -> Interleaved[Id]:
    """Interleave two lists by draws that prefer high ranks; see `team_draft`.

    Parameters
    ----------
    tau
        Exponent, above 0, at most `MOST_TAU`: a document of rank r has a mass of 1 / r^tau. The
        paper takes 3.

    Raises
    ------
    UsageError
        If `length` is below 1, `tau` is out of range, a list names a document twice, or one list
        might run out of documents before the other: then the coins of the page would not be fair.
    """
    _check(a, b, length)
    if min(len(a), len(b)) < length and set(a) != set(b):
        raise UsageError(
            f"the lists have {len(a)} and {len(b)} documents: for a page of {length}, give at "
            "least as many documents of each ranker, or the same documents in both lists."
        )
    if not 0.0 < tau <= MOST_TAU:
        raise UsageError(f"tau is {tau}; it must be above 0, and at most {MOST_TAU:.0f}.")
    masses = _masses(a, tau), _masses(b, tau)
    page: list[Id] = []
    teams: list[Team | None] = []
    shares: list[float | None] = []
    while len(page) < length and all(masses):
        chosen = int(rng.random() >= 0.5)
        document = _draw(masses[chosen], rng)
        page.append(document)
        teams.append(TEAMS[chosen])
        shares.append(_share_of_b(document, masses))
        for of_ranker in masses:
            of_ranker.pop(document, None)
    return Interleaved(tuple(page), tuple(teams), tuple(shares))


def preference(shares: Sequence[float | None], clicked: Collection[int]) -> float:
    """The preference of the clicks on one page for ranker b: from 0 to 1, 1/2 for neither.

    The number is the probability that more clicked documents come from b than from a, plus half of
    the probability that as many do, over the assignments of the documents to the rankers: 0, 1/2
    or 1 after team-draft; after the probabilistic method the marginalised outcome of the paper
    (equation 5, shifted from [-1, 1] to [0, 1]). A document that is clicked twice counts once.

    Parameters
    ----------
    shares
        As `Interleaved.shares`.
    clicked
        Positions of the clicked documents, the first is 0.

    Raises
    ------
    UsageError
        If a position is not on the page, or a share is outside [0, 1].

    Examples
    --------
    >>> preference([0.0, 1.0, 1.0, 0.0], {1, 2, 3})
    1.0
    >>> preference([0.5, 0.9], {1})
    0.9
    """
    lead = {0: 1.0}  # probability of each lead of b over a
    for position in sorted(set(clicked)):
        if not 0 <= position < len(shares):
            raise UsageError(
                f"position {position} is not on the page of {len(shares)} documents; "
                "the first position is 0."
            )
        share = shares[position]
        if share is None:
            continue
        if not 0.0 <= share <= 1.0:
            raise UsageError(f"the share at position {position} is {share}; it must be in [0, 1].")
        later: dict[int, float] = {}
        for ahead, probability in lead.items():
            later[ahead + 1] = later.get(ahead + 1, 0.0) + probability * share
            later[ahead - 1] = later.get(ahead - 1, 0.0) + probability * (1.0 - share)
        lead = later
    return sum(p for ahead, p in lead.items() if ahead > 0) + 0.5 * lead.get(0, 0.0)


def _check(a: Sequence[Id], b: Sequence[Id], length: int) -> None:
    if length < 1:
        raise UsageError(f"length is {length}; a page has at least one document.")
    for name, ranking in (("a", a), ("b", b)):
        if len(set(ranking)) < len(ranking):
            raise UsageError(f"list {name} names a document twice.")


def _masses(ranking: Sequence[Id], tau: float) -> dict[Id, float]:
    return {document: rank**-tau for rank, document in enumerate(ranking, start=1)}


def _draw(masses: dict[Id, float], rng: Random) -> Id:
    """A document with probability proportional to its mass."""
    [document] = rng.choices(list(masses), list(masses.values()))
    return document


def _share_of_b(document: Id, masses: tuple[dict[Id, float], dict[Id, float]]) -> float:
    """Probability that ranker b placed the document, given that the document was placed."""
    of_a, of_b = (each.get(document, 0.0) / sum(each.values()) for each in masses)
    return of_b / (of_a + of_b)
