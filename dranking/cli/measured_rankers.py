"""Rankers that `compare` and `report` take, measured on judged data or on judgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions, check_in_process
from dranking.cli.options.runs import RunOptions, runs_beside_judgements
from dranking.cli.options.scorers import open_judged, open_scorer
from dranking.cli.output import note
from dranking.errors import UsageError
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.engine.executor import Executor
    from dranking.metrics.conventions import Convention
    from dranking.metrics.scores.rows import Rows


@dataclass(frozen=True)
class Measuring:
    """How rankers are measured: options of the commands, as the user gave them."""

    runs: RunOptions
    columns: ColumnOptions
    execution: ExecutionOptions

    def values(
        self,
        scored: Sequence[Place | str],
        data: Place | None,
        score_column: str | None,
        overwrite: bool = False,
    ) -> tuple[list[Any], Any]:
        """The result of each ranker, and groups of queries if there are any.

        Parameters
        ----------
        scored
            The rankers: paths, or names of columns of the data.
        data
            Judged data or judgements; None where all rankers are values of every query.
        score_column
            Column of scores in files of scores.
        overwrite
            Replace the performance report if it exists.
        """
        by = self.runs.groups(data, self.columns)
        paths = [each for each in scored if not isinstance(each, str)]
        beside = None
        if len(paths) == len(scored):
            beside = _runs(paths, data, self.columns, score_column, [self.runs.by or ""])
        how = self.runs.how(is_run=beside is not None)
        if beside is not None:
            check_in_process(self.execution.given, "a run beside judgements")
            given = zip(paths, beside[0], strict=True)
            return [self._of_run(*run, beside[1], how) for run in given], by
        self.runs.check_no_run()
        with self.execution.running(overwrite) as executor:
            results = []
            for each in scored:
                results.append(self._of_rows(each, data, score_column, how, by, executor))
                by = getattr(results[-1], "groups", None) or by
        if isinstance(by, str):
            raise UsageError(
                f"--by {by}: the values of queries have no such column; give FILE:COLUMN."
            )
        return results, by

    def _of_run(self, path: Place, run: Any, judgements: Rows, convention: Convention) -> Any:
        """Values of every query of a run: as they were read, or measured on judgements."""
        from dranking.metrics.per_query import PerQuery
        from dranking.models.evaluation import evaluate

        if isinstance(run, PerQuery):
            return run
        rules = self.runs.rules
        found = evaluate(run, judgements, self.runs.metrics, convention, rules=rules)
        if found.counts is not None:
            note(f"{path}: {found.counts.text(rules)}")
        return found

    def _of_rows(
        self,
        scored: Place | str,
        data: Place | None,
        score_column: str | None,
        convention: Convention,
        by: Any,
        executor: Executor,
    ) -> Any:
        """Values of every query: read from parquet, or measured on the data."""
        from dranking.metrics.per_query import is_per_query, read_per_query
        from dranking.models.evaluation import evaluate

        if not isinstance(scored, str) and is_per_query(scored):
            return read_per_query(scored)
        if data is None:
            raise UsageError(f"{scored}: judged data is needed to measure it: give A B DATA.")
        scorer: Any = scored
        if not isinstance(scored, str):
            scorer = open_scorer(scored, self.columns, data, score_column)
        dataset = open_judged(data, [scorer], self.columns)
        return evaluate(scorer, dataset, self.runs.metrics, convention, by=by, executor=executor)


def split_paths(paths: Sequence[Place]) -> tuple[list[Place], Place | None]:
    """The rankers, and the data behind them; none where all hold values of every query."""
    from dranking.metrics.per_query import is_per_query

    if all(map(is_per_query, paths)):
        return [*paths], None
    return [*paths[:-1]], paths[-1]


def names_of(scored: Sequence[Place | str]) -> list[str]:
    """Names of rankers: the names of their files where these differ, otherwise their paths."""
    short = [each if isinstance(each, str) else each.name for each in scored]
    names = short if len({*short}) == len(short) else [str(each) for each in scored]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} is given {names.count(name)} times; give it once.")
    return names


def _runs(
    paths: Sequence[Place],
    data: Place | None,
    columns: ColumnOptions,
    score_column: str | None,
    further: Sequence[str],
) -> tuple[list[Any], Rows] | None:
    """Runs, or values of every query of evaluate --per-query, and judgements; None for rows."""
    from dranking.metrics.per_query import is_per_query, read_per_query

    values = {path: read_per_query(path) for path in paths if data and is_per_query(path)}
    if len(values) == len({*paths}):
        return None
    return runs_beside_judgements(paths, data, columns, score_column, values, further)
