"""Options of `evaluate`, `compare` and `report`: metrics, groups, grades, runs and judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.shared import complete_convention, complete_metrics, listed_metrics
from dranking.cli.parsing.numbers import parse_number
from dranking.errors import DataError, UsageError
from dranking.files.key_values import names_in
from dranking.files.places import Place, as_place
from dranking.files.reading import exists
from dranking.tuning.numbers import number_of

if TYPE_CHECKING:
    from dranking.metrics.conventions import Convention
    from dranking.metrics.judged_runs import RunRules
    from dranking.metrics.scores.rows import Rows


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """Metrics, their convention, and groups of queries, of any judged data."""

    metrics: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help="Comma-separated metrics; the page of a model has one. --metric help lists them "
            "all, and the conventions. Default: map,p@10,mean_ndcg,ndcg@10; map,mrr,p@10,ndcg@10 "
            "for a run; ndcg@10 on the page of a model.",
            callback=listed_metrics,
            is_eager=True,
            autocompletion=complete_metrics,
        ),
    ] = None
    convention: Annotated[
        str | None,
        typer.Option(
            help="Convention of the metrics: standard, letor4, letor3, mslr or trec. Default: "
            "standard; trec for a run beside judgements.",
            autocompletion=complete_convention,
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Also measure the queries of each value of this column of the data or judgements, "
            "which is constant within a query; or FILE:COLUMN, a table with a row for each query.",
        ),
    ] = None

    def groups(self, data: Place | None, columns: ColumnOptions) -> Any:
        """Groups of queries; the name of a column of data with features as it is."""
        from dranking.metrics.query_groups import read_query_groups
        from dranking.metrics.scores.read_scores import is_judgement_file

        if self.by is None:
            return None
        file, _, column = self.by.rpartition(":")
        if file:
            return read_query_groups(as_place(file), column, columns.qid_column)
        if data is None:
            raise UsageError(
                f"--by {self.by}: there is no DATA with this column; give FILE:COLUMN."
            )
        if is_judgement_file(data, columns.id_and_grade, [self.by]):
            try:
                return read_query_groups(data, self.by, columns.qid_column)
            except DataError as error:
                raise DataError(f"{error} Or name a table of queries: --by FILE:COLUMN.") from error
        return self.by


@dataclass(frozen=True, kw_only=True)
class RunOptions(MeasureOptions):
    """What counts where only the run or only the judgements have a document, and what is relevant.

    The methods serve all judged data; the options but those of grades need judgements.
    """

    TOPIC: ClassVar[str] = "Runs beside judgements (qrels)"

    unjudged: Annotated[
        Literal["irrelevant", "skip", "bounds"],
        typer.Option(
            help="Retrieved documents without a judgement are irrelevant, are skipped (-J of "
            "trec_eval), or give two values: all irrelevant, and all of the highest grade."
        ),
    ] = "irrelevant"
    not_retrieved: Annotated[
        Literal["missed", "last"],
        typer.Option(
            help="Judged documents that the run lacks gain nothing, as in trec_eval, or are "
            "ranked last."
        ),
    ] = "missed"
    all_queries: Annotated[
        bool,
        typer.Option(
            "--all-queries", "-c", help="Judged queries that the run lacks count 0; else left out."
        ),
    ] = False
    relevance_level: Annotated[
        float | None,
        typer.Option(
            "--relevance-level",
            "-l",
            metavar="GRADE",
            help="Lowest relevant grade of all metrics, on any data; map(rel=2) is that of one "
            "metric. Default: that of the convention.",
        ),
    ] = None
    gain: Annotated[
        str | None,
        typer.Option(
            metavar="GAINS",
            help="Gains of the grades 0, 1, ... in ndcg and dcg, on any data, such as 0,1,3,7,15; "
            "or by grade, such as 50=1,100=3, or a table (CSV, JSON lines, parquet) with the "
            "columns grade and gain. Default: those of the convention.",
        ),
    ] = None

    def how(self, *, is_run: bool) -> Convention:
        """The convention of the metrics; by default trec for runs, and standard for other data."""
        from dranking.metrics.conventions import DEFAULT_CONVENTION, adapted, get_convention
        from dranking.models.evaluation import RUN_CONVENTION

        how = get_convention(self.convention or (RUN_CONVENTION if is_run else DEFAULT_CONVENTION))
        return adapted(how, self.relevance_level, gains_of(self.gain))

    @property
    def rules(self) -> RunRules:
        """What counts, as `dranking.evaluate` takes it."""
        from dranking.metrics.judged_runs import RunRules

        return RunRules(
            unjudged=self.unjudged, not_retrieved=self.not_retrieved, all_queries=self.all_queries
        )

    def check_no_grades(self, what: str) -> None:
        """Raise UsageError if options change grades, which has no effect on something."""
        if self.relevance_level is not None or self.gain is not None:
            raise UsageError(
                f"--relevance-level and --gain have no effect on {what}; leave them out."
            )

    def check_no_run(self) -> None:
        """Raise UsageError if options need judgements and the data is none."""
        if self.unjudged != "irrelevant" or self.not_retrieved != "missed" or self.all_queries:
            raise UsageError(
                "--unjudged, --not-retrieved and --all-queries go with judgements (qrels) in the "
                "place of DATA; the documents of other data are those that count."
            )


def gains_of(text: str | None) -> Sequence[float] | Mapping[float, float] | None:
    """Gains of an option: of the grades 0, 1, ..., by grade, or by grade in a table."""
    if text is None:
        return None
    words = names_in(text)
    pairs: list[tuple[float, float]]
    if all("=" in word for word in words):
        parts = [word.partition("=") for word in words]
        pairs = [(parse_number(grade), parse_number(gain)) for grade, _, gain in parts]
    elif len(words) == 1 and exists(as_place(text)):
        from dranking.metrics.scores.read_scores import read_gains

        pairs = read_gains(as_place(text))
    else:
        try:
            return [number_of(word) for word in words]
        except UsageError as error:
            raise UsageError(
                f"--gain {text}: {error} A gain is no number, no grade=gain, nor a file."
            ) from error
    gains = dict(pairs)
    if len(gains) < len(pairs):
        raise UsageError(f"--gain {text}: a grade has two gains; give one.")
    return gains


def runs_beside_judgements(
    paths: Sequence[Place],
    data: Place | None,
    columns: ColumnOptions,
    score_column: str | None,
    read: Mapping[Place, Any] = MappingProxyType({}),
    further: Sequence[str] = (),
) -> tuple[list[Any], Rows] | None:
    """Scores of documents by id, and judgements of documents by id; None for other data.

    Parameters
    ----------
    paths
        What stands before the data. Scores without document ids are in the order of rows, so that
        a table of labels beside them is other data.
    data
        What may hold judgements.
    columns, score_column
        Names of columns.
    read
        What was read from some of the paths already.
    further
        Names of columns that judgements may have as well.
    """
    from dranking.metrics.given_runs import is_labelled_table
    from dranking.metrics.scores.read_scores import (
        is_judgement_file,
        read_judgements,
        read_scores,
    )

    names = columns.id_and_grade
    if data is None or not is_judgement_file(data, names, further):
        return None
    score = score_column or "score"
    runs = [read[path] if path in read else read_scores(path, *names[:2], score) for path in paths]
    named = all(getattr(run, "has_doc_ids", True) for run in runs)
    if not named and is_labelled_table(data):
        return None
    return runs, read_judgements(data, *names)
