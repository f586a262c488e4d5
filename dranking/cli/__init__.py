"""The command line: parse arguments, call the library, print the result.

`app` registers the commands, which have one file each in `commands`, and turns errors into exit
codes: 0 done, 2 the call is wrong, 3 the data is wrong or missing, 75 try again later, 130
interrupted (Ctrl-C), 143 terminated (SIGTERM). `output` prints one JSON object or tables on stdout,
and everything else on stderr. Options are in `options`: `shared` has those of several commands, the
other files have a group each, and `scorers` opens what is measured. How typer parses a command is
in `parsing`: dataclasses of options become options of a command by `option_groups.grouped`, and
`places` turns paths and URLs into places.
"""

import sys

from dranking.cli.signals import end_at_once, end_in_order


def main() -> None:
    """Entry point of the `dranking` command."""
    end_at_once()
    from dranking.cli.app import run
    from dranking.cli.output import note
    from dranking.kernels.machine.first_use import say_when_compiling

    say_when_compiling(note)
    end_in_order()
    code = run(sys.argv[1:])
    end_at_once()
    sys.exit(code)
