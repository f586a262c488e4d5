"""Collections of texts as sparse vectors, and preferences of queries between their documents.

`collection` stores documents (or queries) as sparse vectors, `tfidf` makes the vectors of texts,
`open_collection` reads collections in any form, and `preferences` holds classes, judgments or
tables of tuples, from which `dranking.bilinear.tuples` draws. The ranker that learns from them is
`dranking.bilinear.estimator`.
"""
