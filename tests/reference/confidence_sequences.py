"""Capital processes by plain loops, and the confidence sequence as what they do not rule out."""

import math

BETS = [0.9, 0.75] + [0.5**k for k in range(1, 15)]


def capital_after_each(values, mean):
    """Mixture of the empirical-Bernstein supermartingales against "at most `mean`"."""
    capitals, seen = [], []
    for x in values:
        guess = (0.5 + sum(seen)) / (len(seen) + 1)
        seen.append(x)
        capitals.append((x - mean, (x - guess) ** 2))
    after = []
    for t in range(1, len(capitals) + 1):
        total = 0.0
        for bet in BETS:
            exponent = 0.0
            for gain, square in capitals[:t]:
                exponent += bet * gain + (math.log(1 - bet) + bet) * square
            total += math.exp(exponent)
        after.append(total / len(BETS))
    return after


def lower_ends_on_grid(values, alpha, n_points):
    """After each value, the smallest of the means k / n_points never ruled out until then."""
    ends = [0] * len(values)
    for k in range(n_points + 1):
        ruled_out = False
        for t, capital in enumerate(capital_after_each(values, k / n_points)):
            ruled_out = ruled_out or capital >= 1 / alpha
            if ruled_out:
                ends[t] = max(ends[t], k + 1)
    return [k / n_points for k in ends]


def betting_capital(values, null):
    """Mean final capital of gamblers who bet fixed shares of their capital on every value."""
    total = 0.0
    for bet in BETS:
        capital = 1.0
        for x in values:
            capital = (1 - bet) * capital + bet * capital * x / null
        total += capital
    return total / len(BETS)
