"""`dranking retrain`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from dranking.cli.options.shared import Json
from dranking.cli.output import format_value, note, print_json, print_table, progress_shown
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.places import StorageOptions, storage_options
from dranking.cli.parsing.topics import EXECUTION
from dranking.errors import UsageError


@dataclass(frozen=True)
class Again:
    """Options on running again a run that was begun or finished before."""

    TOPIC: ClassVar[str] = "Running again"

    resume: Annotated[
        bool,
        typer.Option("--resume", help="Finish the unfinished run, on the data that it began with."),
    ] = False
    force: Annotated[bool, typer.Option("--force", help="Run all stages again.")] = False
    from_stage: Annotated[
        str | None, typer.Option("--from", help="Run this stage and all later stages again.")
    ] = None

    def check(self) -> None:
        """Raise UsageError if options exclude one another."""
        if self.force and self.from_stage is not None:
            raise UsageError("give only one of --force and --from.")


@dataclass(frozen=True)
class Elsewhere:
    """A scheduler in place of the configured one."""

    TOPIC: ClassVar[str] = EXECUTION

    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Where tasks run, as for the other commands, such as local or cluster/slurm.py; "
            "replaces the table [cluster]."
        ),
    ] = None
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster",
            metavar="K=V",
            help="An option of the cluster, such as n_workers=8. Repeat the option for more.",
        ),
    ] = None

    @property
    def settings(self) -> list[str]:
        """The options as settings of the configuration."""
        scheduler = json.dumps(self.scheduler)
        where = [] if self.scheduler is None else [f"cluster={{scheduler = {scheduler}}}"]
        return [*where, *(f"cluster.{option}" for option in self.cluster or ())]


@grouped
def retrain(
    config: Annotated[
        Path, typer.Argument(help="The configuration, a TOML file.", metavar="CONFIG")
    ],
    again: Again,
    elsewhere: Elsewhere,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Override a value of the configuration, such as gate.metric=map. Repeat the "
            "option for more.",
            metavar="K=V",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
    ] = False,
    reject_exit: Annotated[
        int,
        typer.Option(
            min=0,
            max=125,
            help="Exit code where the challenger is rejected, such as 4, for schedulers that tell "
            "somebody about it.",
        ),
    ] = 0,
    storage: StorageOptions = None,
    as_json: Json = False,
) -> None:
    """Train a challenger and promote it if it passes.

    The challenger is trained on the present data and promoted to champion if the gate accepts it.
    The stages are validate, ingest, statistics, tune, fit, evaluate, gate, export and publish.
    Stages that are done for the same configuration, data and code are skipped. A rejected
    challenger is the normal night: the exit code is 0, and the output says "rejected".
    """
    from dranking.retrain.config.config import load_config
    from dranking.retrain.monitoring.run_record import RunRecord
    from dranking.retrain.run_plan import plan_run
    from dranking.retrain.runner import retrain as run

    record = RunRecord(reject_exit)
    try:
        again.check()
        checked = load_config(config, [*(settings or ()), *elsewhere.settings])
        with storage_options(storage), progress_shown():
            if dry_run:
                _print_plan(plan_run(checked, **asdict(again)).as_json(), as_json)
                return
            outcome = run(checked, **asdict(again), record=record).as_json()
    except BaseException as error:
        if as_json and not dry_run:
            print_json(record.line or record.fail(error))
        raise
    if as_json:
        print_json(record.line | outcome)
    else:
        _print(outcome)
    if outcome["decision"] == "rejected":
        failed = "; ".join(r["text"] for r in outcome["reasons"] if not r["passed"])
        note(f"rejected, the champion stays: {failed}.")
    if record.exit_code:
        raise typer.Exit(record.exit_code)


def _print_plan(plan: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    title = f"run {plan['run_id']}: " + (
        "to do" if plan["stages"] else "everything is done already"
    )
    rows = [("stages", ", ".join(plan["stages"]) or "none")]
    for use, sources in plan["sources"].items():
        rows += [("" if n else use, source) for n, source in enumerate(sources)]
    rows.append(("gate", plan["gate"]))
    rows += [("" if n else "notes", text) for n, text in enumerate(plan["notes"])]
    print_table(title, ["", ""], rows)


def _print(outcome: dict[str, Any]) -> None:
    verdict = {"accepted": "promoted"}.get(outcome["decision"], outcome["decision"])
    if outcome["unchanged"]:
        champion = outcome["aliases"]["champion"] or "none"
        verdict = (
            "unchanged, nothing was done: data, configuration and code are those of the earlier "
            f"run that was {verdict}; the champion is {champion}"
        )
    failed = "waits" if outcome["decision"] == "postponed" else "FAILED"
    reasons = [
        (r["rule"], "passed" if r["passed"] else failed, r["text"]) for r in outcome["reasons"]
    ] or [("none", "passed", "there is no champion to beat yet")]
    title = f"run {outcome['run_id']}: version {outcome['version']}, {verdict}"
    print_table(title, ["rule", "", "found"], reasons)
    if outcome["gate"]:
        note(f"gate: {outcome['gate']}")
    for text in outcome["notes"]:
        note(f"note: {text}")
    for name, metrics in outcome["metrics"].items():
        note(f"{name}: " + ", ".join(f"{m} {format_value(v)}" for m, v in metrics.items()))
