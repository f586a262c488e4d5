"""Linear models, and what all estimators of linear models share.

A `LinearModel` is a few named weights with the scalings that their features need; the base class
`LinearRanker` gives estimators prediction and the way to such a model. `scoring` turns features and
weights into scores, for both.
"""
