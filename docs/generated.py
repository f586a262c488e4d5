"""Parts of the documentation that are made from the code when the site is built."""

from __future__ import annotations

import inspect
import re
from typing import Any

from pydantic import BaseModel

import dranking
from dranking.retrain.config.config import RetrainConfig

MARK = re.compile(r"<!-- generated: (.+?) -->")
FIRST = (
    *("open_dataset", "from_table", "tune", "GreedyRankRLS", "LinearModel", "load_model"),
    *("evaluate", "compare", "write_report"),
)
"""Names of the main job, which stand first, in its order."""

KINDS = {
    "Rankers": ("rankrls", "pairwise", "max_margin", "models"),
    "Evaluation, tuning and reports": (
        *("metrics", "models.comparison", "models.evaluation", "max_margin.bounds"),
        *("fusion", "tuning", "report"),
    ),
    "Data": (*("data", "ingestion", "files", "metrics.scores"),),
    "Statistics stores": ("rankrls.statistics", "rankrls.gram"),
    "Clicks": ("clicks",),
    "Export": ("models.export",),
    "Texts, and weights of pairs of words": ("bilinear",),
    "Errors": ("errors",),
}
"""Headings of the reference, and the packages whose public names stand under them. The longest
name that fits decides."""


def put_into(app: Any, page: str, source: list[str]) -> None:
    """Put the generated parts in place of their marks; Sphinx calls this for every page."""
    source[0] = MARK.sub(lambda mark: PARTS[mark.group(1)](), source[0])


def reference() -> str:
    """The signature and the docstring of every public name."""
    headings = {f"dranking.{name}.": heading for heading in KINDS for name in KINDS[heading]}
    names: dict[str, list[str]] = {heading: [] for heading in KINDS}
    for name, home in dranking._HOME.items():
        package = max((p for p in headings if f"{home}.".startswith(p)), key=len)
        if name not in FIRST:
            names[headings[package]].append(name)
    sections = {"The main job": [*FIRST]}
    sections |= {heading: sorted(found, key=str.lower) for heading, found in names.items()}
    return "\n\n".join(
        f"## {heading}\n\n{_directives(found)}" for heading, found in sections.items()
    )


def _directives(names: list[str]) -> str:
    lines = ["```{eval-rst}"]
    for name in names:
        if inspect.isclass(getattr(dranking, name)):
            lines += [f".. autoclass:: dranking.{name}", "   :members:", ""]
        else:
            lines += [f".. autofunction:: dranking.{name}", ""]
    return "\n".join([*lines, "```"])


def retraining_configuration() -> str:
    """Tables of the keys of a retraining configuration: default and meaning."""
    parts = []
    for name, field in RetrainConfig.model_fields.items():
        table = _model_of(field.annotation)
        if table is not None:
            parts.append(f"## [{name}]\n\n{_summary(table)}\n\n{_keys(table)}")
    return "\n\n".join(parts)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The table of a field, which may be optional."""
    found = [annotation, *getattr(annotation, "__args__", ())]
    tables = [each for each in found if inspect.isclass(each) and issubclass(each, BaseModel)]
    return tables[0] if tables else None


def _summary(table: type[BaseModel]) -> str:
    return inspect.getdoc(table).split("\n\nAttributes\n")[0]  # type: ignore[union-attr]


def _keys(table: type[BaseModel]) -> str:
    """One line for each key. Keys of one paragraph of the docstring share their meaning."""
    meanings = meanings_of(table)
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for name, field in table.model_fields.items():
        value = field.get_default(call_default_factory=True)
        default = "required" if field.is_required() else f"`{value!r}`"
        lines.append(f"| `{name}` | {default} | {meanings[name]} |")
    return "\n".join(lines)


def meanings_of(table: type[BaseModel]) -> dict[str, str]:
    """The text about each attribute in the docstring of a table.

    Raises
    ------
    KeyError
        If the docstring does not have a field of the table.
    """
    meanings: dict[str, str] = {}
    names: list[str] = []
    attributes = inspect.getdoc(table).split("----------\n", 1)[1]  # type: ignore[union-attr]
    for line in attributes.split("\n"):
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.split(",")]
            meanings |= dict.fromkeys(names, "")
        else:
            for name in names:
                meanings[name] = f"{meanings[name]} {line.strip()}".strip()
    missing = set(table.model_fields) - set(meanings)
    if missing:
        raise KeyError(f"{table.__name__} documents no {', '.join(sorted(missing))}")
    return {name: text.replace("|", "\\|").replace("``", "`") for name, text in meanings.items()}


PARTS = {"reference": reference, "retraining configuration": retraining_configuration}
