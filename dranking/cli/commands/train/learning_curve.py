"""The file of `--learning-curve`: a figure or a table, depending on its suffix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dranking.files.places import Place
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file

TABLES = (".csv", ".json")


def check_learning_curve(path: Place, overwrite: bool) -> None:
    """Raise UsageError, before any work, if `save_learning_curve` cannot write to a path."""
    from dranking.tuning.curves import check_figure

    if path.suffix in TABLES:
        check_output_file(path, overwrite)
    else:
        check_figure(path, overwrite)


def save_learning_curve(curve: Sequence[Any], metric: str, path: Place, overwrite: bool) -> None:
    """Write or draw a learning curve and its metric."""
    from dranking.models.training.learning_curve import plot_learning_curve
    from dranking.tuning.curves import measure_label, save_figure

    points = [asdict(point) for point in curve]
    if path.suffix == ".json":
        text = json.dumps(points)
    elif path.suffix == ".csv":
        rows = [["" if v is None else repr(v) for v in point.values()] for point in points]
        text = "".join(",".join(row) + "\n" for row in (points[0], *rows))
    else:
        figure = plot_learning_curve(curve, metric=measure_label(metric))
        save_figure(figure, path, overwrite=overwrite)
        return
    atomic_write(path, text.encode(), overwrite=overwrite)
