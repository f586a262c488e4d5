"""SPD, LCRA, RankSVM and RankLogistic."""
