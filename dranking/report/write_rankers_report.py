"""Reports about rankers of which only the values of queries are known, written from Python."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dranking.errors import UsageError
from dranking.files.places import AnyPlace, as_place
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file
from dranking.metrics.comparison.ranker_results import RankerComparison
from dranking.models.evaluation import Evaluation
from dranking.report.page import check_page_name, render
from dranking.report.ranker_page import page_of_rankers, page_of_values


def write_rankers_report(
    result: Any,
    path: AnyPlace,
    *,
    title: str | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a report about several rankers, or about one, as one HTML page, whole or not at all.

    The page shows means with intervals, all pairs with their tests, wins and losses, and the
    queries on which the rankers differ most; or the means and the values of the queries of one. Its
    first measure is the one in the figures. It needs no other file.

    Parameters
    ----------
    result
        What `dranking.compare_rankers` or `dranking.evaluate` returned, of models or of runs.
    path
        File to write: a path, a URL or a place; missing parent directories are made.
    title
        Title of the page; None for "Comparison of rankers" or "Ranking".
    overwrite
        Replace a file that exists.
    storage_options
        Options of the file system of a URL, as pandas and Dask take them.

    Raises
    ------
    UsageError
        If the file exists and `overwrite` is false, its name promises another form than HTML, or
        the result is none of the two.

    Examples
    --------
    >>> import tempfile, dranking as dr
    >>> judged = {f"q{i}": {"d": 1, "e": 0} for i in range(30)}
    >>> good, bad = ({q: dict(zip("de", found)) for q in judged} for found in ((2, 1), (1, 2)))
    >>> page = dr.as_place(tempfile.mkdtemp()) / "rankers.html"
    >>> found = dr.compare_rankers({"good": good, "bad": bad}, judged, metric="map")
    >>> dr.write_rankers_report(found, page)
    >>> "<h1>Comparison of rankers</h1>" in page.read_text()
    True
    """
    place = as_place(path, storage_options)
    check_page_name(place)
    check_output_file(place, overwrite)
    written = {"page written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"}
    if isinstance(result, RankerComparison):
        page = page_of_rankers(result, title or "Comparison of rankers", written)
    elif isinstance(result, Evaluation):
        page = page_of_values(result, title or "Ranking", written)
    else:
        raise UsageError(
            f"a {type(result).__name__} is no result of rankers; give what dranking.evaluate or "
            "dranking.compare_rankers returned. A page about a model is dranking.write_report."
        )
    atomic_write(place, render(page), overwrite=overwrite)
