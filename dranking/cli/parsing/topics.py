"""Help by topic: what a command is about first, columns of tables and the cluster last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from dranking.cli.examples import EXAMPLES
from dranking.errors import UsageError

INSTEAD = {
    ("select", "--non-negative"): "leave-query-out errors, by which features are selected, are "
    "those of weights without constraints. Select first, then train with constraints on the "
    "selected columns of a table: dranking train rankrls DATA --features NAMES "
    "--non-negative NAMES -o model.json.",
}
"""What to do in place of an option that only another command has."""

COLUMNS = "Columns of tables"
EXECUTION = "Cluster and object stores"


class TopicCommand(TyperCommand):
    """A command whose help lists its options by topic, the required options first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; for an unknown option, those that begin like it are suggested first."""
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except Exception as error:
            wrong = getattr(error, "option_name", None)
            if (ctx.info_name, wrong) in INSTEAD:
                instead = INSTEAD[ctx.info_name, str(wrong)]
                raise UsageError(f"{ctx.info_name} has no {wrong}: {instead}") from error
            if wrong is not None and hasattr(error, "possibilities"):  # NoSuchOption
                names = [name for p in self.get_params(ctx) for name in p.opts]
                error.possibilities = [
                    name for name in names if name.startswith(wrong)
                ] or error.possibilities
            raise
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for the arguments, for the options, and for each topic of options."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in sorted(self.get_params(ctx), key=self.place_of):
            record = self.record_of(parameter, ctx)
            if record is not None:
                topic = self.topic_of(parameter, ctx)
                if topic is not None:
                    sections.setdefault(topic, []).append(record)
        last = sections.pop(EXECUTION, [])
        for topic, records in [*sections.items(), (EXECUTION, last)]:
            if records:
                with formatter.section(topic):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples of the command, each on a line of its own."""
        names: list[str] = []
        each = ctx
        while each.parent is not None:
            names.insert(0, each.info_name)
            each = each.parent
        name = " ".join(names) or ctx.info_name
        with formatter.section("Examples"):
            for call in EXAMPLES.get(name, ()):
                formatter.write(f"  dranking {name} {call}".rstrip() + "\n")

    def place_of(self, parameter: Any) -> int:
        """The place of an option: options with smaller numbers come first."""
        return 0 if parameter.required else 2

    def record_of(self, parameter: Any, context: Any) -> tuple[str, str] | None:
        """The name and the help of an option; None if it is hidden."""
        record: tuple[str, str] | None = parameter.get_help_record(context)
        return record

    def topic_of(self, parameter: Any, context: Any) -> str | None:
        """The topic under which the help has a parameter; None for a parameter to leave out."""
        if parameter.param_type_name == "argument":
            return "Arguments"
        return getattr(parameter, "rich_help_panel", None) or "Options"


class Commands(typer.Typer):
    """Commands whose help is by topic."""

    def command(self, name: str | None = None, **options: Any) -> Callable[..., Any]:
        """Add a function as a command, as `typer.Typer.command` does."""
        return super().command(name, **{"cls": TopicCommand, **options})
