"""Capital processes by plain loops, and the confidence sequence as what they do not rule out."""

import math

BETS = [0.9, 0.75] + [0.5**k for k in range(1, 15)]
STEPS = [2.0**k for k in range(3, -13, -1)]


def capital_after_each(values, mean):
    """Mixture of the empirical-Bernstein supermartingales against "at most `mean`"."""
    logarithms, after, seen = [0.0] * len(STEPS), [], []
    for x in values:
        guess = (0.5 + sum(seen)) / (len(seen) + 1)
        seen.append(x)
        for number, factor in enumerate(capital_of_first(x, mean, guess)):
            logarithms[number] += math.log(factor)
        after.append(sum(math.exp(each) for each in logarithms) / len(STEPS))
    return after


def capital_of_first(x, mean, guess):
    """Factor by which a value multiplies the capital of each bet, given the guess before it."""
    factors = []
    for step in STEPS:
        bet = min(step, 0.9 / guess)
        share = bet * guess
        cost = -math.log1p(-share) - share
        factors.append(math.exp(bet * (x - mean) - cost * ((x - guess) / guess) ** 2))
    return factors


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
