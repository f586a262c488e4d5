"""Random draws for stochastic training.

`pairs` draws pairs of documents of one block, and `tuples` draws (query, preferred document, other
document) from the preferences of a collection. Neither lists all pairs or tuples.
"""
