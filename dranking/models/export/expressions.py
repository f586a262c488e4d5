"""Models as arithmetic: a Vespa rank profile, an SQL expression, a Python function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dranking.data.transforms import Hinge, Log, Quantile
from dranking.errors import UsageError, listed
from dranking.models.export.terms import Term, factors_of

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROFILE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
NEAR_ZERO = 1e-3
"""Below this size, four terms of the series of a logarithm are off by at most 2e-13 of it, and from
this size on, the rounding of 1 + abs(x) moves the logarithm by about as little."""

_RANK_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\([^(){}\n]*\)(\.[A-Za-z0-9_]+)*")


class Language(NamedTuple):
    """Texts of the operations of a language.

    Attributes
    ----------
    log
        sign(x) log(1 + abs(x)) of the text of x.
    hinge
        The larger of 0 and a value, whose text is a difference; a missing value stays missing.
    filled
        The text of x less an origin, or of a value where x is missing: (x, value, origin).
    indicator
        1 where x is missing, and 0 elsewhere.
    literal
        A floating-point number.
    """

    log: Callable[[str], str]
    hinge: Callable[[str], str]
    filled: Callable[[str, str, float], str]
    indicator: Callable[[str], str]
    literal: Callable[[float], str] = repr


def vespa(terms: Sequence[Term], name: str) -> str:
    """Write the file of a rank profile, with the score in its first phase.

    Its place in the application package is ``schemas/SCHEMA/NAME.profile``. The file begins with
    its profile, as Vespa's parser takes no comment before it. Source: `rankProfile` of Vespa's
    grammar ``SchemaParser.jj``, and ``RankingExpressionParser.jj``.

    A feature with a name such as ``bm25(title)`` is a rank feature; a feature with a name such as
    ``clicks`` is an attribute of the document. Vespa computes in float64.

    Raises
    ------
    UsageError
        If a feature's name has neither form, or the profile's name is not allowed.
    """
    bad = [each.name for each in factors_of(terms) if not _is_vespa_name(each.name)]
    if bad or not _PROFILE.fullmatch(name):
        what = f"features {listed(bad)}" if bad else f"a rank profile {name!r}"
        raise UsageError(
            f"Vespa cannot have {what}: a name has letters, digits and _, and does not begin with "
            "a digit. Set the names of features in Vespa (rank features such as bm25(title), or "
            "attributes) with --feature-names (for retrain export.feature_names), and the "
            "name of the profile with --name (for retrain export.name)."
        )
    score = _sum(
        terms, _VESPA, lambda name: name if "(" in name else f"attribute({name})", " " * 12
    )
    inherits = "" if name == "default" else " inherits default"
    return (
        f"rank-profile {name}{inherits} {{\n"
        f"    first-phase {{\n        expression {{\n            {score}\n        }}\n    }}\n}}\n"
    )


def sql(terms: Sequence[Term], name: str) -> str:
    """Write an SQL expression over columns with the names of the features.

    Documents are ranked by ORDER BY this expression DESC. Literals are floating point in every
    dialect. A NULL feature makes the score NULL, unless a value of the training stands for it.
    """
    comment = " ".join(name.split())
    score = _sum(terms, _SQL, _quoted, "")
    return f"-- score of the ranking model {comment}\n{score}\n"


def _vespa_log(x: str) -> str:
    """Write sign(x) log(1 + abs(x)) for Vespa, which has no log1p."""
    near = _near_zero(x, f"fabs({x})", repr)
    far = f"log(1 + max({x}, 0)) - log(1 + max(0 - {x}, 0))"
    return f"if (fabs({x}) < {NEAR_ZERO!r}, {near}, {far})"


def _sql_log(x: str) -> str:
    """Write sign(x) log(1 + abs(x)) for SQL, which has no log1p. NULL stays NULL."""
    near = _near_zero(x, f"ABS({x})", _sql_literal)
    far = f"SIGN({x}) * LN(1e0 + ABS({x}))"
    return f"CASE WHEN ABS({x}) < {_sql_literal(NEAR_ZERO)} THEN {near} ELSE {far} END"


def _near_zero(x: str, size: str, literal: Callable[[float], str]) -> str:
    """Write four terms of the series of sign(x) log(1 + abs(x)) around 0.

    1 + abs(x) would round the digits of a small x away.
    """
    half, third, quarter = (literal(1.0 / k) for k in (2, 3, 4))
    inner = f"{half} - {size} * ({third} - {size} * {quarter})"
    return f"{x} * ({literal(1.0)} - {size} * ({inner}))"


def python(terms: Sequence[Term], name: str) -> str:
    """Write a Python module: a tuple of feature names and a function.

    Only logarithms and quantiles of features need imports, from the standard library.
    """
    factors = factors_of(terms)
    quantiles = any(isinstance(each.form, Quantile) for each in factors)
    logs = any(isinstance(each.form, Log) for each in factors)
    may_miss = {each.name for each in factors if each.missing is not None or each.is_indicator}
    lines = [
        f'"""Score of the ranking model {_in_docstring(name)}; higher ranks first."""',
        "",
        *(["from array import array"] if quantiles else []),
        *(["from bisect import bisect_left, bisect_right"] if quantiles else []),
        *(["from math import copysign, log1p"] if logs else []),
        *([""] if quantiles or logs else []),
        "FEATURES = (",
        *(f"    {name!r}," for name in dict.fromkeys(each.name for each in factors)),
        ")",
        *(_quantile_lines(factors) if quantiles else []),
        *(_FILLED_LINES if may_miss else []),
        "",
        "",
        "def score(features):",
        '    """Score of a document from a mapping of feature names to numbers."""',
        "    return "
        + _sum(
            terms,
            _PYTHON,
            lambda name: f"features.get({name!r})" if name in may_miss else f"features[{name!r}]",
            " " * 8,
            wrap="()",
        ),
    ]
    return "\n".join(lines) + "\n"


_FILLED_LINES = (
    "",
    "",
    "def filled(x, value, origin=0.0):",
    '    """The value that stood for missing ones in the training, if x is None or NaN."""',
    "    return value if x is None or x != x else x - origin",
)


def _quantile_lines(factors: Sequence[Term]) -> list[str]:
    """Lines with the knots of all quantiles, and a function that interpolates between knots."""
    knots = [(list(form.values[0]), list(form.levels[0])) for form in _quantiles_of(factors)]
    return [
        "KNOTS = (",
        *(f"    {pair!r}," for pair in knots),
        ")",
        "",
        "",
        "def quantile(x, knots):",
        '    """Share of documents below x, plus half the share of documents at x."""',
        '    x = array("f", [x])[0]  # knots are float32 numbers, as the features of the model',
        "    values, levels = knots",
        "    first, after = bisect_left(values, x), bisect_right(values, x)",
        "    if first < after:",
        "        return (levels[first] + levels[after - 1]) / 2",
        "    if first == 0 or first == len(values):",
        "        return 0.0 if first == 0 else 1.0",
        "    part = (x - values[first - 1]) / (values[first] - values[first - 1])",
        "    return levels[first - 1] + part * (levels[first] - levels[first - 1])",
    ]


def _quantiles_of(factors: Sequence[Term]) -> list[Quantile]:
    """The quantile scalings of factors, each once, as several products may have one of them."""
    return list(dict.fromkeys(f.form for f in factors if isinstance(f.form, Quantile)))


def _sum(
    terms: Sequence[Term],
    language: Language,
    reference: Callable[[str], str],
    indent: str,
    *,
    wrap: str = "",
) -> str:
    """Write the score as a sum, with a line for every term."""
    parts, literal = [], language.literal
    quantiles = _quantiles_of(factors_of(terms))
    for term in terms:
        factors = [term] if term.times is None else [term, term.times]
        values = (f"({_value(each, language, reference, quantiles)})" for each in factors)
        parts.append(" * ".join([_signed(term.weight, literal), *values]))
    text = f"\n{indent}+ ".join(parts) or literal(0.0)
    return f"(\n{indent}{text}\n    )" if wrap else text


def _value(
    term: Term,
    language: Language,
    reference: Callable[[str], str],
    quantiles: Sequence[Quantile],
) -> str:
    """Write the scaled value of a feature; `quantiles` are those with knots, in order."""
    value, literal = reference(term.name), language.literal
    if term.is_indicator:
        value = language.indicator(value)
    elif term.missing is not None:
        value = language.filled(value, _signed(term.missing, literal), term.origin)
    else:
        value = _less(value, term.origin, literal)
    if isinstance(term.form, Log):
        value = language.log(value)
    elif isinstance(term.form, Hinge):
        value = language.hinge(_beyond(value, term.form, literal))
    elif term.form is not None:
        value = f"quantile({value}, KNOTS[{quantiles.index(term.form)}])"
    if term.is_scaled:
        value = f"({value} - {_signed(term.mean, literal)}) / {literal(term.scale)}"
    return value


def _less(value: str, origin: float, literal: Callable[[float], str]) -> str:
    """Write the value less its origin."""
    return f"({value} - {_signed(origin, literal)})" if origin else value


def _beyond(value: str, hinge: Hinge, literal: Callable[[float], str]) -> str:
    """Write how far the value lies on the side of a knot where the hinge rises."""
    [knot], [above] = hinge.knots, hinge.above
    knot_text = _signed(knot, literal)
    return f"{value} - {knot_text}" if above else f"{knot_text} - {value}"


def _signed(value: float, literal: Callable[[float], str]) -> str:
    """Write a number that may follow any operator."""
    return f"({literal(value)})" if value < 0 else literal(value)


def _sql_literal(value: float) -> str:
    """Write a literal that is floating point, not decimal, as it has an exponent."""
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _quoted(name: str) -> str:
    if "\0" in name:
        raise UsageError(f"SQL cannot have a column {name!r}: it contains a NUL character.")
    return '"' + name.replace('"', '""') + '"'


_VESPA = Language(
    log=_vespa_log,
    hinge=lambda beyond: f"max({beyond}, 0)",
    filled=lambda x, value, origin: f"if (isNan({x}), {value}, {_less(x, origin, repr)})",
    indicator=lambda x: f"if (isNan({x}), 1, 0)",
)
_SQL = Language(
    log=_sql_log,
    hinge=lambda beyond: f"(ABS({beyond}) + ({beyond})) / 2e0",
    filled=lambda x, value, origin: f"COALESCE({_less(x, origin, _sql_literal)}, {value})",
    indicator=lambda x: f"CASE WHEN {x} IS NULL THEN 1e0 ELSE 0e0 END",
    literal=_sql_literal,
)
_PYTHON = Language(
    log=lambda x: f"copysign(log1p(abs({x})), {x})",
    hinge=lambda beyond: f"max({beyond}, 0.0)",
    filled=lambda x, value, origin: f"filled({x}, {value}{f', {origin!r}' * bool(origin)})",
    indicator=lambda x: f"filled({x}, None) is None",
)


def _in_docstring(name: str) -> str:
    """Write a name that cannot end a docstring."""
    return " ".join(name.split()).replace("\\", "\\\\").replace('"', "'")


def _is_vespa_name(name: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(name) or _RANK_FEATURE.fullmatch(name))
