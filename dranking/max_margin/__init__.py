"""Position-sensitive max-margin rankers: margins are large where mistakes cost much.

`MaxMarginRanker` minimises the mean of a pairwise or listwise hinge of Riezler and De Bona (2009)
plus ``lambda / 2 |w|^2``, by cutting planes, by Newton's method or by stochastic subgradient steps.
`losses` has the losses of one block, `kernels` their loops, and `bounds` the bounds on the risk.
``THEORY.md`` beside this file holds the losses, the most violated rankings and the solvers.
"""
