"""Bounds of a ranker's risk on future queries, from its training error.

`risk_bounds` measures a linear model on its training sample and evaluates every theorem and
corollary of Riezler and De Bona (2009), as printed and corrected, with extensions. ``THEORY.md``
beside this file holds the statements, the corrections and their reasons.
"""
