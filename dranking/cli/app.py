"""The `dranking` command: its subcommands, and the exit codes of errors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from dranking import __version__
from dranking.cli import commands
from dranking.cli.options.tune import TuneCommand
from dranking.cli.output import note
from dranking.cli.parsing.topics import Commands
from dranking.cli.signals import INTERRUPTED, TERMINATED, Terminated
from dranking.errors import DrankingError

app = Commands(
    name="dranking",
    help="Select the features and train the ranker, exactly, for a corpus of any size.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dranking {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Declare the options that precede a command."""


app.command()(commands.ingest)
app.command()(commands.select)
app.command(cls=TuneCommand)(commands.tune)
app.add_typer(commands.train, name="train")
app.command()(commands.evaluate)
app.command()(commands.predict)
app.command()(commands.compare)
app.command()(commands.fuse)
app.command()(commands.bounds)
app.command()(commands.export)
app.command()(commands.info)
app.command()(commands.clean)
app.command()(commands.quickstart)
app.command()(commands.warm)
app.add_typer(commands.stats, name="stats")
app.add_typer(commands.clicks, name="clicks")
app.command()(commands.report)
app.command()(commands.retrain)
app.add_typer(commands.registry, name="registry")
app.add_typer(commands.interleave, name="interleave")


@functools.cache
def _command() -> Any:
    """The tree of commands and their 700 options, which takes a tenth of a second to build."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code.

    The exit codes are 0 done, 2 the call is wrong, 3 the data is wrong or missing, 75 try again
    later, 130 interrupted, 143 terminated.
    """
    try:
        result = _command()(args=list(arguments), standalone_mode=False)
    except DrankingError as error:
        note(f"error: {error}")
        return error.exit_code
    except typer.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except Terminated:
        note("terminated; nothing was left half-written.")
        return TERMINATED
    except Exception as error:
        if hasattr(error, "exit_code") and hasattr(error, "show"):  # click's usage errors
            error.show()
            return int(error.exit_code)
        raise
    if result == INTERRUPTED:  # typer catches Ctrl-C itself and returns this code
        note("interrupted; nothing was left half-written.")
    return result if isinstance(result, int) else 0
