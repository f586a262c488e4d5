"""`dranking train`: train a ranker on all features, with a subcommand for each ranker."""

from dranking.cli.commands.train.bilinear import bilinear
from dranking.cli.commands.train.linear import ranklogistic, rankrls, ranksvm
from dranking.cli.commands.train.max_margin import max_margin
from dranking.cli.commands.train.pairwise import lcra, spd
from dranking.cli.parsing.topics import Commands

train = Commands(help="Train a ranker on all features.", no_args_is_help=True)
train.command()(rankrls)
train.command()(ranksvm)
train.command()(ranklogistic)
train.command()(spd)
train.command()(lcra)
train.command("max-margin")(max_margin)
train.command()(bilinear)
