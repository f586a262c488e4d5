"""Pairwise rankers: a loss of the score differences of pairs of documents plus an L2 penalty.

- `spd`: SPD, stochastic pairwise descent, one drawn pair a step (Sculley 2009);
- `lcra`: LCRA, views that learn from labelled pairs and agree on unlabelled pairs (Tsivtsivadze,
  Hofmann and Heskes 2012); `coregularisation` has its objective and its whole training loop, and
  `views` the groups of features;
- `stochastic_ranker`, `epochs`, `pair_blocks`: what SPD and LCRA share, from the parameters to the
  epochs on shards of the data and the blocks to draw pairs from;
- `losses` has the losses over all pairs, `pairs` draws pairs, and `mixing` averages what shards of
  the data trained apart; the loops are in `kernels`;
- `ranksvm`: RankSVM (Airola et al. 2011, Lee and Lin 2014) and RankLogistic, the minimum
  (`minimise`) of the `objective` over all pairs.

``THEORY.md`` beside this file holds objectives, updates, deviations from the papers and figures.
"""
