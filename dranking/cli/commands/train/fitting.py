"""What the subcommands of `train` share: fit a linear ranker, write its model, say how it went."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from dranking.cli.output import print_json, print_table, progress_shown
from dranking.data.atomic import check_output_file


def train_linear(
    name: str,
    ranker: Any,
    data: Path,
    output: Path,
    *,
    scheduler: str,
    overwrite: bool,
    as_json: bool,
    **others: Path | None,
) -> None:
    """Fit a ranker that ends in a `LinearModel`, and write that.

    Parameters
    ----------
    name
        What the model is called on the command line.
    ranker
        The estimator, not fitted.
    others
        Further data that `fit` takes, by keyword; None is left out.
    """
    from dranking.data.open import open_dataset
    from dranking.engine.cluster import open_executor

    check_output_file(output, overwrite)
    started = time.perf_counter()
    with progress_shown(), open_executor(scheduler) as executor:
        opened = {key: open_dataset(path) for key, path in others.items() if path is not None}
        ranker.fit(open_dataset(data), **opened, executor=executor)
    ranker.to_model().save(output, overwrite=overwrite)
    facts: dict[str, Any] = {
        "model": name,
        "n_features": ranker.n_features_in_,
        "objective": ranker.objective_,
        "seconds": time.perf_counter() - started,
    }
    if hasattr(ranker, "regularization_"):
        facts["regularization"] = ranker.regularization_
    print_trained(facts, output, as_json)


def print_trained(facts: dict[str, Any], output: Path, as_json: bool) -> None:
    """Print model, number of features, objective and seconds, as JSON or as a table."""
    if as_json:
        print_json(facts)
    else:
        print_table(f"{output}", ["", "value"], list(facts.items()))


def given(**options: Any) -> dict[str, Any]:
    """The options that were said; the estimator has defaults of its own for the others."""
    return {name: value for name, value in options.items() if value is not None}
