"""The parts, the clicks and the nights of a shop, and what must hold after every night."""

from __future__ import annotations

import contextlib
import io
import json
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dranking.cli.app import run as run_command
from dranking.retrain.registry.registry import Registry
from pipelines.nights.processes import exit_code, night_in_process, on_day, started

NAMES = ["bm25_title", "bm25_body", "sold", "price", "rating", "age"]
WEIGHTS = np.array([1.5, 1.0, 0.5, 0.0, 0.0, 0.0])
N_DOCUMENTS, N_SHOWN, WINDOW = 12, 8, 6
CONFIG = """
[data]
train = "{folder}/incoming/*.parquet"
{holdout}
window = {window}
max_set_aside = 1
withdrawn = "rollback"
[model]
kind = "greedy-rankrls"
regularization = 1.0
n_features = 4
[gate]
max_drift = 0.25
[export]
formats = ["solr"]
[registry]
location = "{folder}/registry"
[run]
work = "{folder}/work"
prometheus = "{folder}/nights.prom"
"""
CLICKS = """
[clicks]
store = "{folder}/served.clicks"
propensities = "{folder}/positions.json"
reward = "clicks@8"
"""


@dataclass
class Nights:
    """The nights of a folder.

    Attributes
    ----------
    folder
        An empty folder.
    day
        Day of December 2026.
    kills
        The stages of the killed runs so far.
    log
        A line for each night: what happened, exit code, decision and champion.
    """

    folder: Path
    day: int = 0
    kills: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "incoming").mkdir(parents=True)
        self.rows(900, 120, seed=900).to_parquet(self.folder / "held-out.parquet", index=False)
        holdout = f'holdout = "{self.folder}/held-out.parquet"'
        whole = CONFIG.format(folder=self.folder, holdout=holdout, window=WINDOW)
        clicks = CLICKS.format(folder=self.folder)
        unjudged = whole.replace(holdout, "") + clicks
        for name, text in (("judged", whole), ("clicks", whole + clicks), ("unjudged", unjudged)):
            (self.folder / f"{name}.toml").write_text(text)

    @property
    def registry(self) -> Registry:
        """The registry."""
        return Registry(self.folder / "registry")

    def rows(self, first: int, n_queries: int, seed: int, sign: float = 1.0) -> pd.DataFrame:
        """Judged documents of some queries; with a sign of -1 the grades are turned round."""
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(N_DOCUMENTS * n_queries, len(NAMES)))
        utility = sign * (values @ WEIGHTS) + rng.normal(0, 0.5, len(values))
        table = pd.DataFrame(values, columns=NAMES)
        table.insert(0, "qid", [f"q{first + i // N_DOCUMENTS}" for i in range(len(table))])
        table.insert(1, "docid", [f"d{N_DOCUMENTS * first + i}" for i in range(len(table))])
        return table.assign(relevance=np.digitize(utility, [0.5, 2.0]))

    def part(
        self, number: int, seed: int | None = None, sign: float = 1.0, shift: float = 0.0
    ) -> None:
        """Deliver a part of 20 queries, or again with another seed or a shifted feature."""
        rows = self.rows(20 * number, 20, number if seed is None else seed, sign)
        rows["price"] += shift
        rows.to_parquet(self.file(number), index=False)

    def file(self, number: int) -> Path:
        """File of a part."""
        return self.folder / "incoming" / f"part-{number:02d}.parquet"

    def serve(self) -> None:
        """Write clicks of two nights on pages of two rankers; a third of the queries has none."""
        rng = np.random.default_rng(7)
        files = sorted((self.folder / "incoming").iterdir())[-WINDOW:]
        shown = pd.concat(pd.read_parquet(file) for file in files)
        pages = []
        for arm in ("title", "body"):
            page = shown.sort_values(f"bm25_{arm}", ascending=False).groupby("qid").head(N_SHOWN)
            pages.append(page.assign(arm=arm, position=page.groupby("qid").cumcount() + 1))
        queries = shown["qid"].unique()
        queries = queries[np.arange(len(queries)) % 3 > 0]
        sessions = pd.DataFrame({"qid": np.tile(queries, 60), "session": range(60 * len(queries))})
        sessions["arm"] = rng.choice(["title", "body"], len(sessions))
        nights = pd.to_timedelta(sessions["session"] % 2, unit="D")
        log = sessions.assign(time=pd.Timestamp("2026-11-01") + nights)
        log = log.merge(pd.concat(pages), on=["qid", "arm"])
        chance = np.array([0.05, 0.4, 0.9])[log["relevance"]] / log["position"]
        log = log.assign(clicked=rng.random(len(log)) < chance)
        log = log.rename(columns={"qid": "query", "docid": "document"})
        log = log.drop(columns=[*NAMES, "relevance"])
        log.to_parquet(self.folder / "log.parquet", index=False)
        store, curve = self.folder / "served.clicks", self.folder / "positions.json"
        build = ["build", str(self.folder / "log.parquet"), "--output", str(store), "--overwrite"]
        self.command("clicks", *build, "--arm-column", "arm")
        estimate = ["propensities", str(store), "--output", str(curve), "--overwrite"]
        self.command("clicks", *estimate)

    def command(self, *arguments: str, code: int = 0) -> str:
        """Standard output of a command, whose exit code is checked."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            found = run_command(list(arguments))
        if found != code:
            raise AssertionError(f"{' '.join(arguments)}: exit code {found}, not {code}")
        return out.getvalue()

    def night(
        self,
        what: str,
        name: str = "judged",
        *,
        code: int = 0,
        kills: tuple[tuple[str, int], ...] = (),
    ) -> dict[str, Any]:
        """Run a night of the next day, after runs that are killed at renames of stages: its end."""
        self.day += 1
        config = str(self.folder / f"{name}.toml")
        for kill_at in kills:
            found = exit_code(started(night_in_process, config, self.day, kill_at))
            if found != -signal.SIGKILL:
                raise AssertionError(f"{what}: not killed at {kill_at}: exit code {found}")
            self.kills.append(kill_at[0])
            self.check()
        on_day(self.day)
        end: dict[str, Any] = json.loads(self.command("retrain", config, "--json", code=code))
        self.ended(what, end)
        return end

    def again(self, name: str, settings: tuple[str, ...] = ()) -> dict[str, Any]:
        """The end of a run on the day of the last night."""
        options = [part for setting in settings for part in ("--set", setting)]
        config = str(self.folder / f"{name}.toml")
        end: dict[str, Any] = json.loads(self.command("retrain", config, *options, "--json"))
        return end

    def ended(self, what: str, end: dict[str, Any]) -> None:
        """Check what a night leaves, and note it."""
        lines = (self.folder / "work" / "runs.jsonl").read_text().splitlines()
        runs = [json.loads(line) for line in lines]
        if runs[-1] != {key: end[key] for key in runs[-1]}:
            raise AssertionError(f"{what}: runs.jsonl ends with {runs[-1]}")
        expect([run["stage"] for run in runs if run["exit_code"] is None], self.kills, what)
        if end["error"] is None:
            self.check()
        said = "unchanged" if end.get("unchanged") else end["decision"] or end["error"]
        self.log.append(f"{self.day:2} {what}: exit code {end['exit_code']}, {said}")

    def check(self) -> None:
        """Check that every version is whole, and that the ledger keeps its rules."""
        registry = self.registry
        for version in registry.versions:
            registry.verify(version)
        tests = registry.ledger.spent if registry.versions else []
        days = [day for day, _ in tests]
        if len(set(days)) < len(days) or sum(level for _, level in tests) > 0.5:
            raise AssertionError(f"the ledger has tests on {days}")

    def weights(self, location: str, version: str) -> Any:
        """Features and weights of a version."""
        stored = json.loads(Registry(self.folder / location).read(version, "model.json"))
        return stored["feature_names"], stored["weights"]


def expect(found: object, wanted: object, what: str) -> None:
    """Raise AssertionError unless two values are equal."""
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")
