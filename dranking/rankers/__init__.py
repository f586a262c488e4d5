"""Estimators, and the models that they make: a folder for each paper, and what rankers share.

| folder | what it is for | paper |
|---|---|---|
| `greedy` | exact selection of features by leave-query-out error | Pahikkala et al. (2010) |
| `leave_query_out` | the criterion of this selection, and its memory plan | the same |
| `rankrls` | RankRLS on all features; lambda by leave-query-out error | the same |
| `gram` | moments, Gram rows and statistics stores, which these three read | |
| `pairwise` | SPD, by steps on drawn pairs | Sculley (2009) |
| | LCRA, which learns from unlabelled documents too | Tsivtsivadze et al. (2012) |
| | RankSVM, over all pairs | Airola et al. (2011), Lee and Lin (2014) |
| | RankLogistic, over all pairs | the same |
| `max_margin` | hinges of pairs and lists, with margins by position | Riezler and De Bona (2009) |
| `bilinear` | a sparse matrix of weights of word pairs, for texts | Chen et al. (2010) |
| `linear` | linear models, and the base class of all rankers that make them | |
| `training` | epochs, learning curves, validation, checkpoints of iterative training | |

Each of the papers stands with its objective, its formulas and the deviations from it in a
``THEORY.md``: that of `greedy` covers `leave_query_out` and `gram` too. Beside the folders,
`models` reads stored models, `scorers` opens whatever scores documents, `given_scores` joins scores
to documents, and `write_scores` writes scores.
"""
