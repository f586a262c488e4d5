"""`dranking quickstart`: the main job on data of scikit-learn, in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dranking.cli.options.shared import Json
from dranking.cli.output import note, print_json, print_table, progress_shown
from dranking.cli.parsing.option_groups import grouped
from dranking.data.digits_ranking import N_PIXELS, Judged, digits_ranking
from dranking.errors import UsageError
from dranking.files.places import Place, is_local

METRICS = ("ndcg@10", "map", "p@10")
LAMBDAS = tuple(2.0**exponent for exponent in (0, 8, 20, 28))
"""Values of lambda: the smallest changes no ranking, and the largest lowers the quality."""

SIZES = (5, 10, 20, 30)
MOST_TUNED = 48
"""Sizes up to this many pixels are compared; the best sizes are near 40."""

N_FOLDS = 5

MARK = "quickstart.txt"
"""The file that says that a folder is one of quickstart."""

WRITTEN = ("train.txt", "train.zarr", "test.txt", "test.zarr", "model.json", "pixels.png")
"""What quickstart writes, and replaces in a folder of its own."""


@grouped
def quickstart(
    output: Annotated[
        Place,
        typer.Option(
            "--output",
            "-o",
            help="Folder to write to; files of an earlier quickstart are replaced.",
        ),
    ] = Path("dranking-quickstart"),
    seed: Annotated[
        int, typer.Option(help="Random seed of the sampled documents and the folds.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Run the main job on handwritten digits.

    The main job is to ingest, tune, select, evaluate and draw. A query is an image, and its
    documents are other images. A feature is the squared difference of one pixel. Images of the
    same digit are relevant.
    """
    from dranking.rankrls.greedy.path import SelectionRules
    from dranking.rankrls.greedy.selection import select_paths
    from dranking.tuning.curves import save_figure
    from dranking.tuning.folds import QueryKFold
    from dranking.tuning.search import tune

    if not is_local(output):
        raise UsageError(f"{output}: quickstart writes to a local folder; give a path.")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{output}: is a file, or below a file; name a folder.") from error
    except OSError as error:
        raise UsageError(
            f"{output}: cannot be made, {error.strerror}. Name another folder with --output."
        ) from error
    _claim(output)
    with progress_shown():
        train, test = (
            _ingest(judged, output, name)
            for judged, name in zip(digits_ranking(seed=seed), ("train", "test"), strict=True)
        )
        note("tuning lambda and the number of features by cross-validation over queries ...")
        tuned = tune(
            train,
            LAMBDAS,
            validation=QueryKFold(N_FOLDS, seed),
            max_features=MOST_TUNED,
            metric="ndcg@10",
            convention="standard",
            rule="smaller",
        )
        tuned.model.save(output / "model.json", overwrite=True)
        value = tuned.chosen["regularization"]
        [path] = select_paths(train, [value], SelectionRules(N_PIXELS)).paths
        rows = _compare(path, tuned, train, test)
        curve = _curve(path, train, test)
    euclidean = rows[-1]["ndcg@10"]
    figure = _draw(path, tuned.chosen["n_features"], curve, euclidean)
    save_figure(figure, output / "pixels.png", overwrite=True)
    result = {"output": str(output), "chosen": tuned.chosen, "test": rows}
    if as_json:
        print_json(result)
        return
    print_table(
        f"{test.n_queries} test queries x {test.n_documents // test.n_queries} documents, "
        f"lambda {value:g} and {tuned.chosen['n_features']} pixels chosen on training queries",
        ["ranker", "features", *METRICS],
        [(r["ranker"], r["n_features"], *(r[m] for m in METRICS)) for r in rows],
    )
    note(f"model, data and figure are in {output}: model.json, pixels.png, train.zarr, test.zarr")
    note(f"next: dranking evaluate {output / 'model.json'} {output / 'test.zarr'}")


def _claim(output: Path) -> None:
    """Mark a folder as that of quickstart; UsageError where it has files of others in its place."""
    from dranking.files.writing.atomic_files import atomic_write

    mark = output / MARK
    if not mark.exists():
        for name in WRITTEN:
            if (output / name).exists():
                raise UsageError(
                    f"{output / name}: exists, and no quickstart wrote it. Name another folder "
                    "with --output."
                )
    said = "dranking quickstart wrote this folder, and replaces its files when it runs again.\n"
    atomic_write(mark, said, overwrite=True)


def _ingest(judged: Judged, output: Path, name: str) -> Any:
    """Write LETOR text, as users have, and ingest the text."""
    from sklearn.datasets import dump_svmlight_file

    from dranking.files.writing.atomic_files import atomic_path
    from dranking.ingestion.ingest import ingest
    from dranking.ingestion.rows.row_rules import RowRules

    text = output / f"{name}.txt"
    with atomic_path(text, overwrite=True) as file:
        dump_svmlight_file(
            judged.features, judged.relevance, str(file), zero_based=False, query_id=judged.qid
        )
    rules = RowRules(n_features=N_PIXELS)
    dataset, _ = ingest([text], output / f"{name}.zarr", rows=rules, overwrite=True)
    note(f"ingested {text}: {dataset.n_documents:,} documents of {dataset.n_queries} queries")
    return dataset


def _compare(path: Any, tuned: Any, train: Any, test: Any) -> list[dict[str, Any]]:
    """Test metrics of the chosen model, other sizes, all features, and the Euclidean distance."""
    from dranking.models.linear.model import LinearModel
    from dranking.rankrls.estimator import RankRLS

    everything = RankRLS(regularization=path.regularization).fit(train).to_model()
    distance = LinearModel(
        feature_names=train.feature_names, weights=(-1.0,) * len(train.feature_names)
    )
    chosen = tuned.chosen["n_features"]
    rankers = [(f"greedy RankRLS, {k} pixels", k, _path_model(train, path, k)) for k in SIZES]
    rankers.append((f"greedy RankRLS, {chosen} pixels (chosen)", chosen, tuned.model))
    rankers.sort(key=lambda ranker: ranker[1])
    rankers += [
        ("RankRLS, all pixels", N_PIXELS, everything),
        ("Euclidean distance, all pixels", N_PIXELS, distance),
    ]
    return [
        {"ranker": name, "n_features": size, **_score(model, test)} for name, size, model in rankers
    ]


def _path_model(train: Any, path: Any, size: int) -> Any:
    from dranking.models.linear.model import LinearModel

    return LinearModel(
        feature_names=tuple(train.feature_names[i] for i in path.selected[:size]),
        weights=tuple(path.weights[size - 1].tolist()),
    )


def _score(model: Any, test: Any) -> dict[str, float]:
    from dranking.models.evaluation import evaluate

    return dict(evaluate(model, test, METRICS, "standard").metrics)


def _curve(path: Any, train: Any, test: Any) -> list[float]:
    """Test NDCG@10 of the first 1, 2, ... selected pixels, from one pass over the test data."""
    from dranking.engine.choose_executor import get_executor
    from dranking.metrics.conventions import get_convention
    from dranking.tuning.choice import ModelPath
    from dranking.tuning.grid import Criterion, grid_points, validation_sums
    from dranking.tuning.settings import Setting

    setting = Setting(regularization=path.regularization)
    models = [ModelPath(setting, np.array(path.selected), path.weights)]
    criterion = Criterion("ndcg@10", get_convention("standard"))
    sums = validation_sums(models, train, test, criterion, get_executor())
    return [point["score"] for point in grid_points(models, sums)]


def _draw(path: Any, chosen: int, curve: list[float], euclidean: float) -> Any:
    """Draw the pixels in the order of their selection, and NDCG against their number."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), dpi=150, layout="constrained")
    pixels, scores = figure.subplots(1, 2, width_ratios=(1, 1.4))
    order = np.full(N_PIXELS, np.nan)
    order[path.selected[:chosen]] = np.arange(1, chosen + 1)
    pixels.imshow(order.reshape(8, 8), cmap="viridis_r", vmin=1, vmax=max(chosen, 2))
    middle = (1 + chosen) / 2
    for pixel, rank in enumerate(order):
        if np.isfinite(rank):
            row, column = divmod(pixel, 8)
            colour = "black" if rank < middle else "white"
            pixels.text(column, row, f"{rank:.0f}", ha="center", va="center", color=colour)
    pixels.set(title=f"The {chosen} pixels chosen, in order", xticks=[], yticks=[])
    scores.plot(range(1, len(curve) + 1), curve, label="greedy RankRLS")
    scores.plot(chosen, curve[chosen - 1], "o", color="C0", label=f"chosen: {chosen} pixels")
    scores.axhline(euclidean, color="grey", ls="--", label="Euclidean distance, all pixels")
    scores.set(
        xlabel="number of pixels", ylabel="NDCG@10 on test queries", title="Held-out quality"
    )
    scores.legend(loc="lower right")
    scores.grid(alpha=0.3)
    return figure
