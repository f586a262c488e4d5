"""Conditions on folders are parsed, not evaluated, and mean what Python means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.data.parquet.where import matching
from dranking.errors import UsageError

FOLDERS = [
    {"date": "2026-10-31", "shard": "9"},
    {"date": "2026-11-01", "shard": "10"},
    {"date": "2026-11-02"},
    {"date": "a b/c", "shard": "-1.5"},
]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("date >= '2026-11-01'", [False, True, True, True]),
        ("'2026-11-01' <= date < '2026-11-02'", [False, True, False, False]),
        ("shard > 9", [False, True, False, False]),
        ("shard > '9'", [False, False, False, False]),
        ("shard in ('9', '10') and not date == '2026-10-31'", [False, True, False, False]),
        ("shard in (9.0, 10)", [True, True, False, False]),
        ("shard not in (9.0, 10)", [False, False, False, True]),
        ("shard in ('9.0', '10')", [False, True, False, False]),
        ("shard not in ['9']", [False, True, False, True]),
        ("shard != '9' or date == '2026-11-02'", [False, True, True, True]),
        ("date == 'a b/c'", [False, False, False, True]),
    ],
)
def test_what_conditions_mean(where, expected):
    assert matching(where, FOLDERS) == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("date = '2026'", "cannot be read"),
        ("__import__('os').system('true') == 'x'", "cannot be read.*is neither a text in quotes"),
        ("date", "cannot be read.*is no comparison"),
        ("date is 'x'", "comparisons are"),
        ("date == (lambda: 1)", "neither a text in quotes nor a number"),
        ("day == '1'", "no folder is named day=.*: date, shard"),
        ("date > 5", "cannot be applied"),
        ("date in (2026, 2027)", "cannot be applied"),
        ("shard in ('9', 10)", "both texts and numbers"),
        ("shard in (None,)", "neither a text in quotes nor a number"),
        ("shard in '9'", "no list of texts or numbers"),
        ("", "cannot be read"),
    ],
)
def test_what_is_refused(where, message):
    with pytest.raises(UsageError, match=message):
        matching(where, FOLDERS)


@given(
    values=st.lists(st.text("ab0", max_size=2), min_size=1, max_size=5),
    limit=st.text("ab0", max_size=2),
    sign=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
)
def test_comparisons_of_texts(values, limit, sign):
    expected = [eval(f"{value!r} {sign} {limit!r}") for value in values]
    found = matching(f"k {sign} {limit!r}", [{"k": value} for value in values])
    assert found == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("date == 99999999999999999999999", "cannot be applied.*put texts in quotes"),
        ("shard == 1" + "0" * 400, "cannot be read.*too large"),
        ("date in {[1]}", "neither a text in quotes nor a number"),
        ("date in {1: 2}", "neither a text in quotes nor a number"),
        ("shard == True", "neither a text in quotes nor a number"),
        (r"date == '\ud800'", "cannot be read.*surrogates"),
        ("date == 'a\0'", "cannot be read.*null bytes"),
        ("not " * 5_000 + "date == 'a'", r"\.\.\.' cannot be read \(.*too deeply nested"),
        ("(" * 5_000 + "date == 'a'" + ")" * 5_000, r"\.\.\.' cannot be read"),
        ("`date", "cannot be read"),
        ("`` == 'a'", "cannot be read"),
        ("`day of` == '1'", "no folder is named day of="),
    ],
)
def test_conditions_that_python_or_arrow_cannot_hold(where, message):
    with pytest.raises(UsageError, match=message) as error:
        matching(where, FOLDERS)
    assert len(str(error.value)) < 700


def test_numbers_beyond_64_bits_are_compared_as_floats():
    shards = [{"shard": "1e23"}, {"shard": "5"}]
    assert matching("shard < 99999999999999999999999", shards) == [False, True]


def test_long_chains():
    """Thousands of terms, of which one is fulfilled or not; not a recursion for each."""
    terms = [f"date == '{n}'" for n in range(5_000)]
    folders = [{"date": "4999"}, {"date": "5000"}]
    assert matching(" or ".join(terms), folders) == [True, False]
    assert matching(" and ".join(terms).replace("==", "!="), folders) == [False, True]


@pytest.mark.parametrize(
    "name", ["event-date", "class", "day of the week", "1st", "a'b", "ä.ß", "k"]
)
def test_names_between_backticks(name):
    """Also names that Python knows as words, and those that hold quotes."""
    folders = [{name: "x`y", "k": "1"}, {name: "b", "k": "2"}, {"k": "3"}]
    if name == "k":
        folders = [{"k": "x`y"}, {"k": "b"}, {}]
    assert matching(f"`{name}` == 'x`y'", folders) == [True, False, False]
    assert matching(f"`{name}` in ('b', \"it's\") or key == '2'", with_key(folders)) == [
        False,
        True,
        False,
    ]


def with_key(folders):
    return [{"key": "9", **each} for each in folders]
