"""Files of feature costs: CSV or TOML."""

from __future__ import annotations

import csv
import tomllib
from typing import NamedTuple

from dranking.errors import UsageError
from dranking.files.places import Place
from dranking.files.reading import read_bytes
from dranking.redaction import redacted


class CostFile(NamedTuple):
    """Content of a file of feature costs.

    Attributes
    ----------
    costs
        Feature name -> cost.
    groups
        Feature name -> group, for the features in a group. The cost of a group is paid once.
    """

    costs: dict[str, float]
    groups: dict[str, str]


def read_costs(path: Place) -> CostFile:
    """Read feature costs.

    A CSV file has the header ``feature,cost`` or ``feature,cost,group``. A TOML file has a table
    ``costs`` of feature names and costs and, optionally, a table ``groups`` of group names and
    lists of features::

        [costs]
        bm25 = 1
        clicks_day = 20
        clicks_week = 20

        [groups]
        click_log = ["clicks_day", "clicks_week"]

    Raises
    ------
    UsageError
        If the file cannot be read, or has another form.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
        return _of_toml(path, text) if path.suffix == ".toml" else _of_csv(path, text)
    except UsageError:
        raise
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        raise UsageError(f"{path}: feature costs cannot be read ({error}).") from error


def _of_csv(path: Place, text: str) -> CostFile:
    rows = csv.DictReader(text.splitlines(), strict=True)
    header = rows.fieldnames or ()
    if not {"feature", "cost"} <= set(header) or set(header) - {"feature", "cost", "group"}:
        raise UsageError(
            f"{path}: the first line must be feature,cost or feature,cost,group; it is "
            f"{redacted(','.join(header))!r:.80}."
        )
    found = CostFile({}, {})
    for row in rows:
        name, where = row["feature"], f"{path}:{rows.line_num}"
        if None in row or None in row.values():
            raise UsageError(f"{where}: there must be {len(header)} values, as in the first line.")
        if name in found.costs:
            raise UsageError(f"{where}: feature {name} has a cost already.")
        found.costs[name] = _cost(where, name, row["cost"])
        if row.get("group"):
            found.groups[name] = row["group"]
    return found


def _of_toml(path: Place, text: str) -> CostFile:
    document = tomllib.loads(text)
    costs, members = document.get("costs"), document.get("groups", {})
    lists = isinstance(members, dict) and all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in members.values()
    )
    if not isinstance(costs, dict) or not lists or set(document) - {"costs", "groups"}:
        raise UsageError(
            f"{path}: write a table [costs] with feature = cost, and, if features share a cost, a "
            '[groups] with group = ["feature", "feature"], and nothing else.'
        )
    found = CostFile({name: _cost(str(path), name, value) for name, value in costs.items()}, {})
    for group, names in members.items():
        for name in names:
            if found.groups.setdefault(name, group) != group:
                raise UsageError(f"{path}: feature {name} is in two groups.")
    return found


def _cost(where: str, name: str, value: object) -> float:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass
    raise UsageError(f"{where}: the cost of feature {name} is {value!r}, which is no number.")
