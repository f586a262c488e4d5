"""`dranking clicks`: counts, propensities and labels from logs of clicks."""

from dranking.cli.commands.clicks.build import clicks
from dranking.cli.commands.clicks.label import label
from dranking.cli.commands.clicks.propensities import propensities

clicks.command()(propensities)
clicks.command()(label)

__all__ = ["clicks"]
