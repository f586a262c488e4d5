"""The subcommands, one function for each. Slow imports wait until a command is called."""

from dranking.cli.commands.bounds import bounds
from dranking.cli.commands.clean import clean
from dranking.cli.commands.clicks import clicks
from dranking.cli.commands.compare import compare
from dranking.cli.commands.evaluate import evaluate
from dranking.cli.commands.export import export
from dranking.cli.commands.fuse import fuse
from dranking.cli.commands.info import info
from dranking.cli.commands.ingest import ingest
from dranking.cli.commands.interleave import interleave
from dranking.cli.commands.predict import predict
from dranking.cli.commands.quickstart import quickstart
from dranking.cli.commands.registry import registry
from dranking.cli.commands.report import report
from dranking.cli.commands.retrain import retrain
from dranking.cli.commands.select import select
from dranking.cli.commands.stats import stats
from dranking.cli.commands.train import train
from dranking.cli.commands.tune import tune
from dranking.cli.commands.warm import warm

__all__ = [
    "bounds",
    "clean",
    "clicks",
    "compare",
    "evaluate",
    "export",
    "fuse",
    "info",
    "ingest",
    "interleave",
    "predict",
    "quickstart",
    "registry",
    "report",
    "retrain",
    "select",
    "stats",
    "train",
    "tune",
    "warm",
]
