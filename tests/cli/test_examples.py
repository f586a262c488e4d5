"""The examples in the help of every command are calls that the command takes."""

import shlex

import pytest
import typer

from dranking.cli.app import app
from dranking.cli.examples import EXAMPLES


def commands():
    def below(command, names):
        if not hasattr(command, "commands"):
            return {" ".join(names): command}
        return {
            path: found
            for name, each in command.commands.items()
            for path, found in below(each, [*names, name]).items()
        }

    return below(typer.main.get_command(app), [])


COMMANDS = commands()


def test_every_command_has_two_examples_in_its_help():
    assert {name: len({*calls}) for name, calls in EXAMPLES.items()} == dict.fromkeys(COMMANDS, 2)
    for name, calls in EXAMPLES.items():
        context = COMMANDS[name].context_class(COMMANDS[name], info_name=name)
        shown = COMMANDS[name].get_help(context)
        for arguments in calls:
            assert f"dranking {name} {arguments}".strip() in shown


@pytest.mark.parametrize(("name", "call"), [(n, call) for n in EXAMPLES for call in EXAMPLES[n]])
def test_an_example_is_a_call_of_its_command(name, call):
    assert COMMANDS[name].make_context(name, shlex.split(call)).params
