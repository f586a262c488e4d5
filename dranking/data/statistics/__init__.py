"""Statistics stores: what RankRLS needs of every query, without the documents."""
