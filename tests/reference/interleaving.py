"""Exact distributions of interleaved pages, by going through every coin and draw."""

from collections import defaultdict


def team_draft_pages(a, b, length):
    """Probability of every (documents, teams): algorithm 2 of Radlinski et al. 2008."""
    pages = defaultdict(float)

    def go(page, teams, probability):
        of_a = [d for d in a if d not in page]
        of_b = [d for d in b if d not in page]
        if len(page) == length or not (of_a or of_b):
            pages[tuple(page), tuple(teams)] += probability
        elif not of_a or not of_b:
            go([*page, (of_a or of_b)[0]], [*teams, None], probability)
        else:
            n_a, n_b = teams.count("a"), teams.count("b")
            if n_a <= n_b:
                go([*page, of_a[0]], [*teams, "a"], probability * (0.5 if n_a == n_b else 1.0))
            if n_b <= n_a:
                go([*page, of_b[0]], [*teams, "b"], probability * (0.5 if n_a == n_b else 1.0))

    go([], [], 1.0)
    return dict(pages)


def probabilistic_pages(a, b, length, tau):
    """Probability of every (documents, teams): section 4.1 of Hofmann et al. 2011.

    The lists have the same documents.
    """
    pages = defaultdict(float)

    def softmax(ranking, page):
        masses = {d: 1 / rank**tau for rank, d in enumerate(ranking, 1) if d not in page}
        return {d: mass / sum(masses.values()) for d, mass in masses.items()}

    def go(page, teams, probability):
        if len(page) == min(length, len(a)):
            pages[tuple(page), tuple(teams)] += probability
            return
        for team, ranking in (("a", a), ("b", b)):
            for d, p in softmax(ranking, page).items():
                go([*page, d], [*teams, team], probability * 0.5 * p)

    go([], [], 1.0)
    return dict(pages)


def outcome_given_page(pages, documents, clicked):
    """P(b has more clicks) + P(as many) / 2, over the assignments that lead to a page."""
    total = wins = 0.0
    for (shown, teams), probability in pages.items():
        if shown == documents:
            lead = sum({"a": -1, "b": 1}[teams[i]] for i in clicked)
            total += probability
            wins += probability * (1.0 if lead > 0 else 0.5 if lead == 0 else 0.0)
    return wins / total
