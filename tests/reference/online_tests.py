"""Online tests by plain loops: e-LOND and the ladder."""

import math


def lond(rate, e_values):
    """Decision of e-LOND on each e-value in order."""
    decisions = []
    for t, e_value in enumerate(e_values, start=1):
        gamma = 6 / math.pi**2 / t**2
        level = rate * gamma * (sum(decisions) + 1)
        decisions.append(e_value >= 1 / level)
    return decisions


def ladder(first, means, step):
    """Reported bests after each mean, in whole steps."""
    best, reported = round(first / step), []
    for mean in means:
        if mean > best * step + step:
            best = round(mean / step)
        reported.append(best * step)
    return reported
