"""Names that the command line writes out, against the tables that they come from."""

import inspect
import re
from typing import get_args, get_type_hints

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import dranking as dr
from dranking.cli.app import app
from dranking.cli.commands.export import export
from dranking.cli.commands.ingest import ingest
from dranking.cli.commands.train.linear import ranksvm
from dranking.cli.options.shared import Convention, Forms
from dranking.cli.options.tune import MODELS, TuneModel
from dranking.data.forms import FormName
from dranking.data.scaling import Normalize
from dranking.export.formats import FORMATS
from dranking.metrics.conventions import CONVENTIONS
from dranking.metrics.measures.by_name import MEASURES
from dranking.rankers.pairwise.ranksvm import RankSVM
from dranking.tuning.families import ModelName, tunable_of


def names_in_help(option):
    return set(re.findall(r"\w+", option.help))


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_metrics_help_lists_every_measure(command):
    shown = CliRunner().invoke(app, [command, "--metrics", "help"])
    assert shown.exit_code == 0, shown.output
    for family in MEASURES.values():
        assert ", ".join(family.spellings) in shown.output
        assert family.meaning in shown.output


def test_the_help_of_export_names_every_format():
    _, option = get_args(get_type_hints(export, include_extras=True)["form"])
    assert set(FORMATS) <= names_in_help(option)


def test_ingest_offers_every_scaling_and_select_every_form():
    offered, _ = get_args(get_type_hints(ingest, include_extras=True)["normalize"])
    assert get_args(offered) == get_args(Normalize)
    _, option = get_args(Forms)
    forms = {name.replace("query-minmax", "minmax") for name in get_args(FormName)}
    assert forms <= names_in_help(option)
    assert set(get_args(FormName)) - {"raw"} == set(get_args(Normalize)) - {"none"}


def test_every_convention_is_offered():
    _, option = get_args(Convention)
    assert set(CONVENTIONS) == set(option.autocompletion("")) < names_in_help(option)


def test_tune_offers_every_model():
    assert get_args(TuneModel) == get_args(ModelName)


def test_train_ranksvm_offers_every_loss():
    offered = inspect.signature(ranksvm, eval_str=True).parameters["loss"].annotation
    losses, _ = get_args(get_args(offered)[0])
    assert losses == get_type_hints(RankSVM)["loss"]


def test_help_is_by_topic_required_options_first_and_the_cluster_last():
    shown = CliRunner().invoke(app, ["select", "--help"]).output
    places = [shown.index(text) for text in (
        "Arguments:", "Options:", "--n-features", "--output", "--json",
        "Candidates:", "--start", "Search:", "--rescore", "Costs:", "--budget", "--prefetch",
        "Columns of tables:", "--qid-column", "Cluster and object stores:", "--scheduler",
        "--storage-option",
    )]  # fmt: skip
    assert places == sorted(places)


def test_bash_completes_commands_and_options(monkeypatch):
    monkeypatch.setenv("_DRANKING_COMPLETE", "complete_bash")
    for words, completed in (
        ("dranking sel", "select"),
        ("dranking select --n-f", "--n-features"),
        ("dranking evaluate --convention letor4", "letor4"),
        ("dranking select --convention m", "mslr"),
        ("dranking predict --alias cham", "champion"),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        shown = CliRunner().invoke(app, [], prog_name="dranking")
        assert shown.output.split() == [completed]


def shown_options(*command):
    shown = CliRunner().invoke(app, [*command, "--help"]).output
    return set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", shown, re.MULTILINE))


@pytest.mark.parametrize("model", get_args(ModelName))
def test_the_help_of_tune_has_the_options_of_one_model(model):
    """Of all options that some model takes: those that `train` has for the model."""
    options = {p.name: max(p.opts, key=len) for p in get_command(app).commands["tune"].params}
    choice = {"greedy-rankrls": {"criterion", "max_features", "rule", "feature_penalty"}}
    choice["rankrls"] = {"criterion"}
    expected = {options[name] for name in choice.get(model, ())}
    if model != "greedy-rankrls":
        some = {options[name] for name in MODELS}
        command = "ranksvm" if model.startswith("ranksvm-") else model  # ranksvm-LOSS
        expected |= some & shown_options("train", command)
    if model.startswith("ranksvm-"):
        expected.remove("--loss")
    if "eta0" not in tunable_of(model):
        expected -= {"--eta0"}
    of_models = {options[name] for name in MODELS}
    assert shown_options("tune", "--model", model) & of_models == expected


def test_the_help_of_tune_has_the_tolerance_of_each_model():
    for model, ranker in (("ranksvm", dr.RankSVM()), ("max-margin", dr.MaxMarginRanker())):
        output = CliRunner().invoke(app, ["tune", "--model", model, "--help"]).output
        shown = " ".join(output.split()).replace("- ", "-")  # lines end at hyphens too
        tolerance = f"{ranker.tol:g}".replace("e-0", "e-")
        assert re.search(rf"{model}[^.]*: this [^.]*, {tolerance} by default", shown)


def test_the_help_of_train_speaks_of_one_model():
    for model in ("ranksvm", "max-margin"):
        shown = CliRunner().invoke(app, ["train", model, "--help"]).output
        assert "lcra" not in shown
    assert "Default: 0.0001." in CliRunner().invoke(app, ["train", "spd", "--help"]).output
