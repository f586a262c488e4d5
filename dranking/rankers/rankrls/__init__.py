"""RankRLS."""
