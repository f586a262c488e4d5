"""The subcommands, one function each; their heavy imports wait until they are called."""

from dranking.cli.commands.bounds import bounds
from dranking.cli.commands.data import info, ingest
from dranking.cli.commands.export import export
from dranking.cli.commands.judging import compare, evaluate, predict
from dranking.cli.commands.quickstart import quickstart
from dranking.cli.commands.registry import registry
from dranking.cli.commands.report import report
from dranking.cli.commands.retrain import retrain
from dranking.cli.commands.selection import select
from dranking.cli.commands.stats import stats
from dranking.cli.commands.train import train
from dranking.cli.commands.tune import tune

__all__ = [
    "bounds",
    "compare",
    "evaluate",
    "export",
    "info",
    "ingest",
    "predict",
    "quickstart",
    "registry",
    "report",
    "retrain",
    "select",
    "stats",
    "train",
    "tune",
]
