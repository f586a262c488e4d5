"""Conditions on the names of folders, such as ``date >= '2026-11-01' and shard in ('1', '2')``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.errors import UsageError

_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def matching(where: str, folders: Sequence[Mapping[str, str]]) -> list[bool]:
    """Which files lie in folders that fulfil a condition.

    Parameters
    ----------
    where
        Comparisons (==, !=, <, <=, >, >=, in, not in) of names of keys with texts in quotes or
        with numbers, joined by and, or, not and parentheses. To compare with a number, the value of
        the folder is read as a number; all other comparisons, also those with a list, are of texts.
        The condition is parsed, never run as code.
    folders
        For each file, the values of its folders ``key=value`` by key. Without the key, a
        comparison is not fulfilled.

    Raises
    ------
    UsageError
        If the condition cannot be read, names a key that no folder has, or compares a value that
        is not a number with a number.
    """
    names = sorted({name for values in folders for name in values})
    columns: dict[str, pa.Array] = {
        name: pa.array([values.get(name) for values in folders], pa.string()) for name in names
    }
    return list(rows_matching(where, columns, len(folders)))


def names_in_condition(where: str, option: str = "--where") -> list[str]:
    """The names in a condition, sorted; raises the errors of `matching`."""
    with _explained(where, option):
        tree = ast.parse(where.strip(), mode="eval")
    return sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)})


def rows_matching(
    where: str, columns: Mapping[str, pa.Array], n_rows: int, option: str = "--where"
) -> NDArray[np.bool_]:
    """(n_rows,) which rows fulfil a condition on columns of texts; see `matching`."""
    with _explained(where, option):
        tree = ast.parse(where.strip(), mode="eval").body
        condition = _expression(tree, sorted(columns))
        number = "number of the row"
        table = pa.table({**columns, number: np.arange(n_rows)})
        kept = np.zeros(n_rows, bool)
        kept[table.filter(condition).column(number).to_numpy()] = True
        return kept


@contextmanager
def _explained(where: str, option: str) -> Iterator[None]:
    try:
        yield
    except SyntaxError as error:
        raise UsageError(
            f"{option} {where!r} cannot be read ({error.msg}); write, for example, "
            f"{option} \"date >= '2026-11-01' and country == 'fi'\"."
        ) from error
    except pa.ArrowException as error:
        raise UsageError(
            f"{option} {where!r} cannot be applied ({error}); put texts in quotes."
        ) from error


def _expression(node: ast.expr, names: Sequence[str]) -> pc.Expression:
    if isinstance(node, ast.BoolOp):
        join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
        return reduce(join, (_expression(value, names) for value in node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ~_expression(node.operand, names)
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        parts = [
            _comparison(operands[i], op, operands[i + 1], names) for i, op in enumerate(node.ops)
        ]
        return reduce(operator.and_, parts)
    raise SyntaxError(f"{ast.unparse(node)} is no comparison")


def _comparison(
    left: ast.expr, op: ast.cmpop, right: ast.expr, names: Sequence[str]
) -> pc.Expression:
    if isinstance(op, (ast.In, ast.NotIn)):
        values = _constant(right)
        if not isinstance(values, tuple):
            raise SyntaxError(f"{ast.unparse(right)} is no list of texts or numbers")
        if len({isinstance(value, str) for value in values}) > 1:
            raise SyntaxError(f"{ast.unparse(right)} has both texts and numbers")
        is_text = not values or isinstance(values[0], str)
        kind = pa.string() if is_text else pa.float64()
        key = _as_type_of(values[0] if values else "", _key(left, names))
        found = key.isin(pa.array(values, kind))
        return found if isinstance(op, ast.In) else ~found & _key(left, names).is_valid()
    if type(op) not in _COMPARISONS:
        raise SyntaxError("comparisons are ==, !=, <, <=, >, >=, in and not in")
    compare = _COMPARISONS[type(op)]
    if isinstance(left, ast.Name):
        value = _constant(right)
        return compare(_as_type_of(value, _key(left, names)), value)
    value = _constant(left)
    return compare(value, _as_type_of(value, _key(right, names)))


def _as_type_of(value: Any, key: pc.Expression) -> pc.Expression:
    return key if isinstance(value, str) else key.cast(pa.float64())


def _key(node: ast.expr, names: Sequence[str]) -> pc.Expression:
    if not isinstance(node, ast.Name):
        raise SyntaxError(f"{ast.unparse(node)} is not the name of a key")
    if node.id not in names:
        known = ", ".join(names) if names else "there are none"
        raise UsageError(
            f"--where: no folder is named {node.id}=...; the keys of the folders are: {known}."
        )
    return pc.field(node.id)


def _constant(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except ValueError as error:
        raise SyntaxError(
            f"{ast.unparse(node)} is neither a text in quotes nor a number"
        ) from error
    values = tuple(value) if isinstance(value, (list, set, tuple)) else (value,)
    if not all(isinstance(each, (str, int, float)) for each in values):
        raise SyntaxError(f"{ast.unparse(node)} is neither a text in quotes nor a number")
    return value if isinstance(value, (str, int, float)) else values
