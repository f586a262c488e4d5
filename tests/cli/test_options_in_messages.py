"""Options and names in messages: the command at hand has the options, and few names are listed."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

import dranking as dr
from dranking.cli.app import app
from dranking.retrain.config.tables import ClicksConfig, DataConfig, ExportConfig

SOURCE = Path(__file__).parents[2] / "dranking"
OPTION = re.compile(r"(?<![\w(-])(?:\()?(--[a-z][a-z0-9-]*\w)")


def commands_of(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its name, such as "train spd"."""
    for name, child in getattr(command, "commands", {}).items():
        yield from commands_of(child, f"{path} {name}".strip())
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS = dict(commands_of(get_command(app)))
OPTIONS = {
    name: {option for p in command.params for option in (*p.opts, *p.secondary_opts)} | {"--help"}
    for name, command in COMMANDS.items()
}
READ_TABLES = [
    name for name, options in OPTIONS.items() if {"--qid-column", "--null"} <= {*options}
]

# The commands that show the messages of a file or folder; the longest path counts. In a tuple, each
# message belongs to one of the commands.
SHOWN_BY: dict[str, Sequence[str]] = {
    "data": [*READ_TABLES, "retrain"],
    "ingestion/rows/scratch.py": ["ingest", "clicks build"],
    "metrics/scores": ["evaluate", "compare", "report", "fuse"],
    "fusion": ["fuse"],
    "metrics/comparison": ["compare", "report"],
    "cli/commands/compare.py": ("evaluate", "compare"),
    "cli/ranker_tables.py": ["compare"],
    "cli/options/runs.py": ["evaluate", "compare", "report"],
    "cli/measured_rankers.py": ("compare", "report"),
    "models/query_groups.py": ["evaluate", "compare"],
    "cli/options/groups.py": ["evaluate", "compare"],
    "engine": [*READ_TABLES, "retrain"],
    "engine/cluster": [name for name in COMMANDS if "--scheduler" in OPTIONS[name]],
    "ingestion": [*READ_TABLES, "retrain"],
    "models/export": ["export", "retrain"],
    "clicks/counting": ["clicks build"],
    "clicks/logs": ["clicks build"],
    "clicks/interleaving": ["interleave analyse"],
    "clicks/labels": ["clicks label", "retrain"],
    "clicks/off_policy": ["evaluate"],
    "clicks/off_policy/pages.py": ["evaluate", "retrain"],
    "clicks/off_policy/off_policy_value.py": ["evaluate", "retrain"],
    "clicks/propensities": ["clicks propensities"],
    "clicks/store": ["clicks propensities", "clicks label", "evaluate", "clicks info"],
    "tuning": ["tune"],
    "clicks/evaluation.py": ["evaluate"],
    "report": ["report", "retrain"],
    "retrain": ["retrain"],
    "files/writing/output_checks.py": [n for n in COMMANDS if "--overwrite" in OPTIONS[n]],
    "cli/commands/bilinear.py": ["evaluate"],
    "cli/commands/stats.py": ("stats append", "stats expire"),
    "cli/commands/train/epochs.py": ["train spd", "train lcra", "train max-margin"],
    "cli/commands/train/linear.py": ["train rankrls"],
    "cli/commands/train/max_margin.py": ["train max-margin"],
    "cli/commands/train/bilinear.py": ["train bilinear"],
    "cli/commands/clicks/propensities.py": ["clicks propensities"],
    "cli/commands/clicks/build.py": ["clicks build"],
    "cli/feature_profiles.py": ["info"],
    "cli/options/clicks.py": ["evaluate"],
    "cli/options/max_margin.py": ["tune", "train max-margin"],
    "cli/options/pairwise.py": ["tune", "train lcra"],
    "cli/options/registry_models.py": ["predict"],
    "cli/options/scorers.py": ["evaluate", "compare", "report"],
    "cli/parsing/numbers.py": ["select"],
    "cli/parsing/score_files.py": ["predict"],
    "cli/parsing/topics.py": ["train rankrls"],
    **{
        f"cli/commands/{name}.py": [name]
        for name in (
            "bounds",
            "evaluate",
            "info",
            "predict",
            "quickstart",
            "report",
            "retrain",
            "tune",
        )
    },
    "cli/commands/select.py": ["select"],
    "errors.py": [n for n in COMMANDS if "--normalize" in OPTIONS[n]],
}
KEYS = {
    **{f"--{role}-column": f"data.{role}" for role in ("qid", "docid", "relevance", "weight")},
    **{f"--{name.replace('_', '-')}": f"data.{name}" for name in DataConfig.model_fields},
    **{f"--{name.replace('_', '-')}": f"clicks.{name}" for name in ClicksConfig.model_fields},
    **{f"--{name.replace('_', '-')}": f"export.{name}" for name in ExportConfig.model_fields},
}


class Message(NamedTuple):
    """A text of the source: `{...}` stands for what is put in."""

    place: str
    text: str


def messages() -> Iterator[Message]:
    """Texts of the source that may name an option, without docstrings, examples and pages."""
    for path in sorted(SOURCE.rglob("*.py")):
        place, source = str(path.relative_to(SOURCE)), path.read_text()
        if "--" not in source or place == "cli/examples.py":  # to parse all files takes seconds
            continue
        tree = ast.parse(source)
        passed = {id(part) for node in ast.walk(tree) for part in _passed_over(node)}
        for node in ast.walk(tree):
            text = None if id(node) in passed else _text(node)
            if text is not None and re.search(r"[\w)}]\s|\s[\w({-]", text):
                yield Message(f"{place}:{node.lineno}", text)


def _passed_over(node: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, help, declarations of options, and the parts of a text with values."""
    if isinstance(node, ast.JoinedStr):
        yield from (part for part in ast.walk(node) if part is not node)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    elif isinstance(node, ast.keyword) and node.arg == "help":
        yield from ast.walk(node.value)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else "{...}" for p in node.values)
        return "".join(map(str, parts))
    return None


def unfollowable(text: str, shown_by: Sequence[str]) -> list[str]:
    """The options that a message names and some command lacks, each with this command."""
    found = []
    for match in OPTION.finditer(text):
        option = match[1]
        owner = _owner(text, match.start(), match.end())
        if owner is not None:
            if option not in OPTIONS[owner]:
                found.append(f"{option} of {owner}")
            continue
        if match.start() == 0:  # about an option that was given
            shown = [name for name in shown_by if option in OPTIONS[name]]
            found += [] if shown else [f"{option} of no command"]
            continue
        for name in shown_by:
            key = KEYS.get(option)
            named = name == "retrain" and key is not None and f"for retrain {key}" in text
            if option not in OPTIONS[name] and not named:
                found.append(f"{option} in {name}")
    return found


def _owner(text: str, start: int, end: int) -> str | None:
    """The command in `dranking CMD ... --option` or `--option of dranking CMD`."""
    names = "|".join(sorted(COMMANDS, key=len, reverse=True))
    after = re.match(rf"(?: [\w.,{{}}]+)? of dranking ({names})\b", text[end:])
    before = re.search(rf"dranking ({names})(?: (?!of )[^\s;]*[^\s;,.])* ?$", text[:start])
    found = after or before
    return found[1] if found else None


def shown_by(place: str) -> Sequence[str]:
    file = place.split(":")[0]
    known = [path for path in SHOWN_BY if file == path or file.startswith(f"{path}/")]
    return SHOWN_BY[max(known, key=len)] if known else []


def test_messages_name_options_that_the_command_has():
    wrong = []
    for place, text in messages():
        if not OPTION.search(text):
            continue
        commands = shown_by(place)
        assert commands, f"say in SHOWN_BY which commands show the messages of {place}"
        if isinstance(commands, tuple):
            wrong += [] if any(not unfollowable(text, [name]) for name in commands) else [place]
        else:
            wrong += [f"{place}: {each}" for each in unfollowable(text, commands)]
    assert wrong == []


def test_the_test_finds_options_that_a_command_lacks():
    assert unfollowable("Pass --regroup.", ["select"]) == ["--regroup in select"]
    assert unfollowable("Pass --regroup of dranking select.", ["select"]) == ["--regroup of select"]
    assert unfollowable("Leave it out with --exclude.", ["retrain"]) == ["--exclude in retrain"]
    assert not unfollowable("Pass --regroup of dranking ingest.", ["select"])
    assert not unfollowable("With --exclude (for retrain data.exclude).", ["select", "retrain"])


def calls_of(name: str) -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if name in source else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_options_of_ingest_in_messages_exist_everywhere_they_are_said_to():
    names = {ast.literal_eval(call.args[0]) for _, call in calls_of("of_ingest")}
    assert names  # else there is nothing to test
    for name in names:
        assert f"--{name.replace('_', '-')}" in OPTIONS["ingest"]
        assert name in inspect.signature(dr.open_dataset).parameters
        assert name in {field.name for field in fields(dr.RowRules)}
        assert name in DataConfig.model_fields


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_options_of_its_command(name):
    for parameter in COMMANDS[name].params:
        text = re.sub(rf"\b({'|'.join(COMMANDS)}) --", r"dranking \1 --", parameter.help or "")
        assert not unfollowable(f"{parameter.name}: {text}", [name])


NAMES = re.compile(r"\b(\w*names|columns|\w*features|schema|absent|missing|lacking|there|header)\b")
FEW = {
    "bilinear/texts/preferences.py": "of three columns",
    "clicks/counting/log_rows.py": "of the columns of an event",
    "cli/options/cost_files.py": "80 characters of a line",
    "data/forms_dataset.py": "of the forms of features",
    "data/parquet/advice.py": "of at most 20 features, in a command",
    "engine/cluster/tls.py": "of four files",
    "retrain/registry/registry.py": "of models, cut",
    "retrain/stages/click_gate.py": "of four arrays",
    "retrain/workflows/bilinear.py": "of two columns",
    "files/arrow_tables.py": "of columns that a file of dranking has",
    "tuning/curves.py": "of settings of a curve",
}
"""Files that join names in messages by themselves, and which."""


def test_names_in_messages_are_listed_by_functions_that_cut_the_list():
    """Names are joined by `listed` and `quoted`, or are a slice."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if ".join(" in source else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            separator = getattr(node.func.value, "value", None)
            if node.func.attr != "join" or separator not in (", ", ",", "; ", " and "):
                continue
            joined = ast.unparse(node.args[0])
            is_cut = "MOST_NAMES]" in joined or joined.endswith("for i in largest)")
            if NAMES.search(joined) and not is_cut:
                found.setdefault(str(path.relative_to(SOURCE)), []).append(joined)
    assert {file: joined for file, joined in found.items() if file not in FEW} == {}
