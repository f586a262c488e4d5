"""Help by topic: what a command is about first, columns of tables and the cluster last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

COLUMNS = "Columns of tables"
EXECUTION = "Cluster and object stores"


class TopicCommand(TyperCommand):
    """A command whose help lists its options by topic, the required options first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for the arguments, for the options, and for each topic of options."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        shown = sorted(self.get_params(ctx), key=lambda parameter: not parameter.required)
        for parameter in shown:
            record = parameter.get_help_record(ctx)
            if record is not None:
                topic = self.topic_of(parameter, ctx)
                if topic is not None:
                    sections.setdefault(topic, []).append(record)
        last = sections.pop(EXECUTION, [])
        for topic, records in [*sections.items(), (EXECUTION, last)]:
            if records:
                with formatter.section(topic):
                    formatter.write_dl(records)

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
