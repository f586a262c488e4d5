"""Conditions on the names of folders, such as ``date >= '2026-11-01' and shard in ('1', '2')``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.errors import UsageError, listed

_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
}

SHOWN = 200
"""Characters of a condition that errors show."""

_TEXT_OR_NAME = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?P<name>[^`]+)`""", re.DOTALL)
"""Texts in quotes, and names between backticks."""


def matching(where: str, folders: Sequence[Mapping[str, str]]) -> list[bool]:
    """The files that lie in folders which fulfil a condition.

    Parameters
    ----------
    where
        Comparisons (==, !=, <, <=, >, >=, in, not in) of names of keys with texts in quotes or
        with numbers, joined by and, or, not and parentheses. Names that are no identifiers of
        Python stand between backticks, as in pandas: ```event-date` >= '2026-11-01'``. To compare
        with a number, or with a list of numbers, the value of the folder is read as a number; all
        other comparisons are of texts. The condition is parsed, never run as code.
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
    columns = {
        name: pa.array([values.get(name) for values in folders], pa.string()) for name in names
    }
    return list(rows_matching(where, columns))


def names_in_condition(where: str, option: str = "--where") -> list[str]:
    """The names in a condition, sorted; raises the errors of `matching`."""
    with _explained(where, option):
        return sorted({node.id for node in ast.walk(_parsed(where)) if isinstance(node, ast.Name)})


def rows_matching(
    where: str, columns: Mapping[str, pa.Array], option: str = "--where"
) -> NDArray[np.bool_]:
    """(n_rows,) which rows fulfil a condition on columns of texts; see `matching`."""
    with _explained(where, option):
        is_met = _met(_parsed(where), columns)
        return np.asarray(pc.fill_null(is_met, False).to_numpy(zero_copy_only=False), np.bool_)


@contextmanager
def _explained(where: str, option: str) -> Iterator[None]:
    shown = where if len(where) <= SHOWN else f"{where[:SHOWN]}..."
    try:
        yield
    except UsageError:
        raise
    except pa.ArrowException as error:
        raise UsageError(
            f"{option} {shown!r} cannot be applied ({error}); put texts in quotes."
        ) from error
    except (
        SyntaxError,
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        if isinstance(error, RecursionError | MemoryError):
            why = "its parts are too deeply nested"
        raise UsageError(
            f"{option} {shown!r} cannot be read ({why}); write, for example, "
            f"{option} \"date >= '2026-11-01' and country == 'fi'\", and names such as event-date "
            "between backticks."
        ) from error


def _parsed(where: str) -> ast.expr:
    """The condition as Python's tree, with names as they are written, without backticks."""
    prefix = "key"
    while prefix in where:
        prefix += "_"
    names: dict[str, str] = {}

    def replaced(found: re.Match[str]) -> str:
        if found["name"] is None:
            return found[0]
        key = f"{prefix}{len(names)}"
        names[key] = found["name"]
        return key

    tree = ast.parse(_TEXT_OR_NAME.sub(replaced, where).strip(), mode="eval").body
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return tree


# Parts are computed at once: Arrow's expressions are recursive, and long ones end the process.
def _met(node: ast.expr, columns: Mapping[str, pa.Array]) -> pa.Array:
    """The truth of a condition for each row; null where a comparison has no value."""
    if isinstance(node, ast.BoolOp):
        join = pc.and_kleene if isinstance(node.op, ast.And) else pc.or_kleene
        return reduce(join, (_met(value, columns) for value in node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return pc.invert(_met(node.operand, columns))
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        parts = (
            _comparison(operands[i], op, operands[i + 1], columns) for i, op in enumerate(node.ops)
        )
        return reduce(pc.and_kleene, parts)
    raise SyntaxError(f"{ast.unparse(node)} is no comparison")


def _comparison(
    left: ast.expr, op: ast.cmpop, right: ast.expr, columns: Mapping[str, pa.Array]
) -> pa.Array:
    if isinstance(op, (ast.In, ast.NotIn)):
        values = _constant(right)
        if not isinstance(values, tuple):
            raise SyntaxError(f"{ast.unparse(right)} is no list of texts or numbers")
        if len({isinstance(value, str) for value in values}) > 1:
            raise SyntaxError(f"{ast.unparse(right)} has both texts and numbers")
        is_text = not values or isinstance(values[0], str)
        kind = pa.string() if is_text else pa.float64()
        key = _key(left, columns)
        found = pc.is_in(_as_type_of(values[0] if values else "", key), pa.array(values, kind))
        return found if isinstance(op, ast.In) else pc.and_(pc.invert(found), pc.is_valid(key))
    if type(op) not in _COMPARISONS:
        raise SyntaxError("comparisons are ==, !=, <, <=, >, >=, in and not in")
    compare = _COMPARISONS[type(op)]
    if isinstance(left, ast.Name):
        value = _constant(right)
        return compare(_as_type_of(value, _key(left, columns)), _scalar(value))
    value = _constant(left)
    return compare(_scalar(value), _as_type_of(value, _key(right, columns)))


def _as_type_of(value: Any, key: pa.Array) -> pa.Array:
    return key if isinstance(value, str) else key.cast(pa.float64())


def _scalar(value: Any) -> pa.Scalar:
    return pa.scalar(value, pa.string() if isinstance(value, str) else pa.float64())


def _key(node: ast.expr, columns: Mapping[str, pa.Array]) -> pa.Array:
    if not isinstance(node, ast.Name):
        raise SyntaxError(f"{ast.unparse(node)} is not the name of a key")
    if node.id not in columns:
        known = listed(sorted(columns)) if columns else "there are none"
        raise UsageError(
            f"--where: no folder is named {node.id}=...; the keys of the folders are: {known}."
        )
    return columns[node.id]


def _constant(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise SyntaxError(
            f"{ast.unparse(node)} is neither a text in quotes nor a number"
        ) from error
    is_list = isinstance(value, (list, set, tuple))
    values = [_text_or_number(each, node) for each in (value if is_list else (value,))]
    return tuple(values) if is_list else values[0]


def _text_or_number(value: Any, node: ast.expr) -> str | float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SyntaxError(f"{ast.unparse(node)} is neither a text in quotes nor a number")
    return value if isinstance(value, str) else float(value)
