"""`retrain`: from new data to a promoted model, in stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dranking.cli.options import Json
from dranking.cli.output import format_value, note, print_json, print_table, progress_shown
from dranking.errors import RejectedError, UsageError


def retrain(
    config: Annotated[Path, typer.Argument(help="A TOML file.", metavar="CONFIG")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="key=value over the file, such as gate.metric=map.", metavar="K=V"
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish the run that did not end, on its data.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Run all stages again.")] = False,
    from_stage: Annotated[
        str | None, typer.Option("--from", help="Run this stage and those behind it again.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a challenger on the data there is now, and promote it if the gate lets it pass.

    Stages: validate, ingest, statistics, tune, fit, evaluate, gate, export, publish. Those done
    for the same configuration, data and code are skipped. Exit code 4 means rejected, also where
    that was found by an earlier run and nothing has changed since.
    """
    from dranking.retrain.config import load_config
    from dranking.retrain.plan import plan_run
    from dranking.retrain.runner import retrain as run

    if force and from_stage is not None:
        raise UsageError("give one of --force and --from.")
    wanted: dict[str, Any] = {"resume": resume, "force": force, "from_stage": from_stage}
    checked = load_config(config, settings or ())
    if dry_run:
        plan = plan_run(checked, **wanted).as_json()
        if as_json:
            print_json(plan)
        else:
            _print_plan(plan)
        return
    with progress_shown():
        outcome = run(checked, **wanted).as_json()
    if as_json:
        print_json(outcome)
    else:
        _print(outcome)
    if not outcome["accepted"]:
        failed = "; ".join(r["text"] for r in outcome["reasons"] if not r["passed"])
        raise RejectedError(f"rejected, the champion stays: {failed}.")


def _print_plan(plan: dict[str, Any]) -> None:
    title = f"run {plan['run_id']}: " + ("to do" if plan["stages"] else "all is done already")
    rows = [("stages", ", ".join(plan["stages"]) or "none")]
    rows += [(name, "\n".join(sources)) for name, sources in plan["sources"].items()]
    print_table(title, ["", "what"], rows)


def _print(outcome: dict[str, Any]) -> None:
    verdict = "promoted" if outcome["accepted"] else "rejected"
    if outcome["unchanged"]:
        champion = outcome["aliases"]["champion"] or "none"
        verdict = (
            f"unchanged, nothing was done: data, configuration and code are those of the run that "
            f"was {verdict}; the champion is {champion}"
        )
    reasons = [
        (r["rule"], "passed" if r["passed"] else "FAILED", r["text"]) for r in outcome["reasons"]
    ] or [("none", "passed", "the first of its kind has no champion to beat")]
    title = f"run {outcome['run_id']}: version {outcome['version']}, {verdict}"
    print_table(title, ["rule", "", "found"], reasons)
    for name, metrics in outcome["metrics"].items():
        note(f"{name}: " + ", ".join(f"{m} {format_value(v)}" for m, v in metrics.items()))
