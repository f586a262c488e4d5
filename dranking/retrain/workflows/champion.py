"""What a run takes over from the champion: features, values for missing ones, distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dranking.data.column_constants import check_origins, indicator_name
from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.data.filling import ColumnSummary
from dranking.data.roles import KnownFeatures
from dranking.data.steps import origins_by_column
from dranking.errors import UsageError
from dranking.ingestion.known_values import known_values
from dranking.ingestion.rows.row_rules import origins_of_columns, raw_columns_of
from dranking.models.linear.model import LinearModel
from dranking.retrain.quarantine import set_aside_if_wrong
from dranking.retrain.registry.registry import MODEL_NAME
from dranking.retrain.sources.sources import DIGITS
from dranking.retrain.workflow import PROFILE_NAME, Run
from dranking.retrain.workflows.parts import Parts
from dranking.retrain.workflows.profiles import Profile, parse_profile


def champion_model(run: Run) -> LinearModel | None:
    """The model of the rival, if its version has a linear one."""
    registry, rival = run.registry, run.rival
    if rival is None or MODEL_NAME not in registry.manifest(rival).checksums:
        return None
    return LinearModel.model_validate_json(registry.read(rival, MODEL_NAME))


def champion_profile(run: Run) -> Profile | None:
    """Distributions of the rival's training data, if its version has them."""
    registry, rival = run.registry, run.rival
    if rival is None or PROFILE_NAME not in registry.manifest(rival).checksums:
        return None
    content = registry.read(rival, PROFILE_NAME)
    return parse_profile(content, f"{registry}: {PROFILE_NAME} of version {rival}")


def known_features(run: Run) -> KnownFeatures | None:
    """The features of a run: those that are named, or those of the champion's training data.

    None without either: then the first training part has them.
    """
    data, champion = run.config.data, champion_profile(run)
    may_lack = data.null != "error"
    if data.features is not None:
        return KnownFeatures(tuple(data.features), "data.features", may_lack)
    if champion is None or data.n_features is not None:
        return None
    made = set(map(indicator_name, champion.feature_names)) if data.null_indicator else set()
    left_out = {*data.exclude, *made}
    names = tuple(name for name in champion.feature_names if name not in left_out)
    owner = f"the training data of the champion, version {run.rival},"
    return KnownFeatures(names, owner, may_lack, ", or name the features in data.features")


def with_known_values(run: Run, parts: Parts) -> Parts:
    """Parts with the values for missing ones: those of ingested parts, or fitted to this run's.

    Where every part is ingested anew, the values of the champion are kept for its features.

    Raises
    ------
    UsageError
        If the champion has values of another kind, or other origins of its columns.
    PartSetAsideError
        If a training source is wrong and was set aside, as the configuration allows.
    """
    null, shift = run.config.data.null, run.config.data.shift
    stored = parts.stored_values(run.all_sources)
    if stored is not None:
        return replace(parts, known=stored)
    champion = champion_model(run)
    subtracted = origins_of_columns(champion)
    if shift == "none" and subtracted:
        raise _other_origins(run, subtracted, of_champion=True)
    if shift == "none" and null == "error":
        return replace(parts, known=None)
    before = None if champion is None else champion.constants
    if before is not None and before.fills and before.policy != null:
        raise UsageError(
            f"data.null is {null}, but in the champion, version {run.rival}, the "
            f"{before.policy} of its training data stands for a missing value, so that "
            "no data serves both; keep its policy, or begin a new registry."
        )
    names: Sequence[str] = ()
    summaries: list[ColumnSummary] = []
    origins, taken = None, subtracted or None
    for source in run.sources["train"]:
        if source.name in DIGITS:  # which lack no value
            continue
        with set_aside_if_wrong(run, source):
            found = parts.measure(source, taken)
            if not names:
                names, origins = found.names, found.origins
                taken = {} if origins is None else origins_by_column(names, (origins,))
                needed = () if champion is None else raw_columns_of(champion)
                new = {name: taken[name] for name in needed if name in taken}
                if new and not subtracted:
                    raise _other_origins(run, new, of_champion=False)
            parts = parts.with_features_of(found.names, source)
            summaries.append(found.summary)
    known = known_values(tuple(names), summaries, null, champion, origins) if summaries else None
    return replace(parts, known=known)


def _other_origins(run: Run, origins: dict[str, float], of_champion: bool) -> UsageError:
    """The error if the champion subtracts origins and the data does not, or the other way."""
    name, origin = next(iter(origins.items()))
    sides = [f"{origin:.17g} is subtracted", "nothing is subtracted"]
    data, champion = reversed(sides) if of_champion else sides
    return UsageError(
        f"data.shift is {run.config.data.shift}, so that from column {name!r} of the data {data} "
        f"before the conversion to float32, and for the champion, version {run.rival}, {champion}:"
        f' no data serves both. Keep data.shift = "{"auto" if of_champion else "none"}", or begin'
        " a new registry."
    )


def check_champion_scores(run: Run, use: str, data: Dataset) -> None:
    """Raise UsageError if judged data has gaps, and the champion no values for them."""
    champion = champion_model(run)
    if champion is None or data.constants is None:
        return
    names = source_names(champion.feature_names, champion.transforms)
    constants = data.constants.restricted(data.columns_of(names))
    check_origins(names, champion.constants, constants, f"the {use} data")
    if (
        champion.constants is None
        and constants.fills
        and constants.policy != "zero"
        and any(constants.gaps)
    ):
        raise UsageError(
            f"the {use} data lacks values, for which the champion, version {run.rival}, has "
            f"none: it was trained without data.null, which is now {run.config.data.null}, so "
            "that the two cannot be compared. Begin a new registry."
        )
