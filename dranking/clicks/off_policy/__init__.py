"""Values of rankers from the clicks on pages of other rankers."""
