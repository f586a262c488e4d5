"""Names that the command line writes out, against the tables that they come from."""

import contextlib
import inspect
import io
import re
from types import SimpleNamespace
from typing import get_args, get_type_hints

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import dranking as dr
from dranking.cli.app import app, run
from dranking.cli.commands.export import export
from dranking.cli.commands.ingest import ingest
from dranking.cli.commands.train.linear import ranksvm
from dranking.cli.options import registry_models
from dranking.cli.options.shared import METRICS, Convention, SelectedForms, complete_metrics
from dranking.cli.options.tune import LOSSES, MODELS, TuneModel
from dranking.data.forms_dataset import FormName
from dranking.data.scaling import Normalize
from dranking.metrics.conventions import CONVENTIONS
from dranking.metrics.measures.by_name import MEASURES
from dranking.models.export.formats import FORMATS
from dranking.pairwise.ranksvm import RankSVM
from dranking.tuning.families import RANKERS, ModelName, tunable_of


def names_in_help(option):
    return set(re.findall(r"\w+(?:-\w+)*", option.help))


def output_of(words):
    """What a command prints that ends well; unlike a CliRunner, the options are not built anew."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run(words) == 0
    return printed.getvalue()


@pytest.mark.parametrize("command", ["evaluate", "compare", "tune", "report", "train spd"])
def test_metrics_help_lists_every_measure_and_convention(command):
    shown = output_of([*command.split(), "--metric", "help"])
    for family in MEASURES.values():
        assert ", ".join(family.spellings) in shown
        assert family.meaning in shown
    table = shown[shown.index("--convention") :]
    lines = [line[1:].split("│") for line in table.split("\n")]
    rows = {cells[0].strip(): cells for cells in lines}
    assert set(CONVENTIONS) < set(rows)
    # As `dranking.metrics` states: mslr takes grade 2 as relevant, trec has linear gains.
    assert rows["mslr"][3].strip() == "grade >= 2"
    assert [rows[name][1].strip() for name in ("trec", "letor4")] == ["grade", "2^grade - 1"]


def test_metrics_that_the_shell_completes_are_all_spellings():
    spellings = {name for family in MEASURES.values() for name in family.spellings}
    assert {name.replace("@10", "@K") for name in METRICS} == spellings
    assert complete_metrics("map,nd") == ["map,ndcg", "map,ndcg@10"]
    assert complete_metrics("ndcg@10,ndcg") == ["ndcg@10,ndcg"]


def test_the_help_of_export_names_every_format():
    _, option = get_args(get_type_hints(export, include_extras=True)["form"])
    assert set(FORMATS) == set(option.autocompletion("")) <= names_in_help(option)


def test_ingest_offers_every_scaling_and_select_every_form():
    offered, _ = get_args(get_type_hints(ingest, include_extras=True)["normalize"])
    assert get_args(offered) == get_args(Normalize)
    _, option = get_args(SelectedForms)
    assert {*get_args(FormName)} <= names_in_help(option)
    others = {"raw", "hinge", "product"}
    assert set(get_args(FormName)) - others == set(get_args(Normalize)) - {"none"}


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
    shown = output_of(["select", "--help"])
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
        ("dranking export --format on", "onnx"),
        ("dranking evaluate --metric map,mean", "map,mean_ndcg"),
        ("dranking tune --metric pair", "pairwise_error"),
        ("dranking registry show none cham", "champion"),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        shown = CliRunner().invoke(app, [], prog_name="dranking")
        assert shown.output.split() == [completed]


def test_an_option_that_is_cut_short_is_known(dranking):
    code, _, told = dranking("select", "data.txt", "--qid", "query_id")
    assert code == 2
    assert "--qid-column" in told
    assert "--forbid" not in told


def shown_options(*command):
    shown = output_of([*command, "--help"])
    return set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", shown, re.MULTILINE))


@pytest.mark.parametrize("model", get_args(ModelName))
def test_the_help_of_tune_has_the_options_of_one_model(model):
    """Of all options that some model takes: those that `train` has for the model."""
    options = {p.name: max(p.opts, key=len) for p in get_command(app).commands["tune"].params}
    choice = {"greedy-rankrls": {"criterion", "max_features", "rule", "time"}}
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


@pytest.mark.parametrize("model", get_args(ModelName))
def test_the_help_of_tune_has_the_losses_of_one_model(model):
    """The losses are those of the estimator, the default first; a wrong loss is refused by it."""
    shown = output_of(["tune", "--help", "--model", model])
    found = re.search(r"--loss +[<\[]([\w|-]+)[>\]]\s+Loss\. Default: ([\w-]+)\.", shown)
    estimator = RANKERS.get(model)
    if model not in LOSSES:
        assert found is None
        return
    losses = found[1].split("|")
    assert [found[2]] == losses[:1] == [estimator().loss]
    with pytest.raises(dr.UsageError) as refused:
        estimator(loss="none").fit(np.eye(2), [0, 1], qid=[1, 1])
    named = re.split(r"choose (?:from )?", str(refused.value))[1]
    assert set(re.findall(r"[\w-]+", named)) - {"or", "and"} == set(losses)


def test_a_model_without_a_name_at_the_end_is_named(dranking):
    code, _, told = dranking("tune", "data.txt", "--regularization", "1,8", "--model")
    assert (code, "Option '--model' requires an argument" in told) == (2, True)


def test_help_of_tune_takes_the_model_from_anywhere_and_requires_data_and_output_alone():
    runs = (
        ["tune", "--model", "lcra", "--help"],
        ["tune", "--help", "--model", "lcra"],
        ["tune", "--help", "--model=lcra"],
    )
    before, *after = (output_of(words) for words in runs)
    assert after == [before, before]
    assert "--views" in before
    shown = output_of(["tune", "--help"])
    assert shown.count("[required]") == 2
    places = [shown.index(text) for text in (
        "Options:", "--output", "--regularization GRID", "--json", "--validation PATH", "--folds",
        "--metric",
    )]  # fmt: skip
    assert places == sorted(places)


@pytest.mark.parametrize("model", ["ranksvm", "ranklogistic", "max-margin"])
def test_the_help_of_train_begins_with_what_changes_the_model(model):
    shown = output_of(["train", model, "--help"])
    loss = [] if model == "ranklogistic" else ["--loss"]
    places = sorted(map(shown.index, ["--regularization", *loss]))
    assert places[-1] < shown.index("--json") < shown.index("\nSolver:") < shown.index("--tol")
    assert max(places) < shown.index("--normalize")


def test_versions_of_a_registry_are_completed(tmp_path, monkeypatch):
    class Opened:
        versions = ("000001", "000012")

    monkeypatch.setattr(registry_models, "open_registry", lambda place: Opened)
    context = SimpleNamespace(params={"location": str(tmp_path)})
    complete = registry_models.complete_version
    assert complete(context, "0000") == ["000001", "000012"]
    assert complete(context, "c") == ["champion", "challenger"]
    monkeypatch.undo()
    assert complete(context, "") == ["champion", "challenger", "previous"]


def test_the_help_of_tune_has_the_tolerance_of_each_model():
    for model, ranker in (("ranksvm", dr.RankSVM()), ("max-margin", dr.MaxMarginRanker())):
        output = output_of(["tune", "--model", model, "--help"])
        shown = " ".join(output.split()).replace("- ", "-")  # lines end at hyphens too
        tolerance = f"{ranker.tol:g}".replace("e-0", "e-")
        assert re.search(rf"{model}[^.]*: this [^.]*, {tolerance} by default", shown)


def test_the_help_of_train_speaks_of_one_model():
    for model in ("ranksvm", "max-margin"):
        shown = output_of(["train", model, "--help"])
        assert "lcra" not in shown
    assert "Default: 0.0001." in output_of(["train", "spd", "--help"])
