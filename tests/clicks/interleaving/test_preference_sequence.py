"""Preferences of users from files of credits: units, verdicts, and the command."""

import json
from collections import defaultdict
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from dranking.cli.app import run
from dranking.clicks.interleaving.credit_files import CreditColumns, Credits, read_credits
from dranking.clicks.interleaving.preference_sequence import Units, first_days, preference_sequence
from dranking.errors import DataError, UsageError

START = datetime(2026, 11, 1)


def made_up(n=3_000, n_users=900, n_days=9, shares=(0.2, 0.5, 0.3), seed=0):
    rng = np.random.default_rng(seed)
    seconds = np.sort(rng.integers(0, n_days * 86_400, n))
    return pd.DataFrame(
        {
            "user": [f"u{i}" for i in rng.integers(0, n_users, n)],
            "time": [START + timedelta(seconds=int(s)) for s in seconds],
            "credit": rng.choice([0.0, 0.5, 1.0], n, p=shares),
        }
    )


def as_credits(rows):
    return Credits(
        pd.factorize(rows.user)[0], rows.time.to_numpy("datetime64[us]"), rows.credit.to_numpy()
    )


def plain_units(rows, until):
    """Mean credit of each user's first day, by arrival, with plain loops."""
    pages = defaultdict(list)
    for user, time, credit in rows.itertuples(index=False):
        if time.date() < until:
            pages[user].append((time, credit))
    units = []
    for of_user in pages.values():
        arrival = min(time for time, _ in of_user)
        first = [credit for time, credit in of_user if time.date() == arrival.date()]
        units.append((arrival, sum(first) / len(first)))
    return sorted(units)


@pytest.mark.parametrize("until", [None, date(2026, 11, 5)])
def test_every_user_is_one_unit_of_the_first_day(until):
    rows = made_up()
    units = first_days(as_credits(rows), until)
    expected = plain_units(rows, until or date(2026, 11, 9))
    np.testing.assert_allclose(units.values, [value for _, value in expected], rtol=1e-14)
    assert [str(t) for t in units.arrival] == [
        t.isoformat(timespec="microseconds") for t, _ in expected
    ]
    assert units.n_pages + units.n_later_pages + units.n_open_pages == len(rows)


def test_later_pages_change_no_earlier_unit():
    """What entered the sequence stays: the sequence of few days begins the one of more days."""
    rows = made_up()
    early = preference_sequence(first_days(as_credits(rows), date(2026, 11, 4)))
    late = preference_sequence(first_days(as_credits(rows), date(2026, 11, 9)))
    n = len(early.lower)
    assert n < len(late.lower)
    np.testing.assert_array_equal(early.lower, late.lower[:n])
    np.testing.assert_array_equal(early.upper, late.upper[:n])


def units_of(values, days=10):
    values = np.asarray(values, dtype=float)
    seconds = np.linspace(0, days * 86_400 - 1, len(values)).astype("timedelta64[s]")
    arrival = (np.datetime64(START, "us") + seconds).astype("datetime64[us]")
    return Units(values, arrival, len(values), 0, 0, (START + timedelta(days=days)).date())


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1.0, 1.0, 0.0] * 300, "b"),
        ([0.0, 0.0, 1.0] * 300, "a"),
        ([0.5, 0.5, 0.4, 0.6] * 1_000, "futile"),
        ([0.0, 1.0] * 20, "open"),
        ([0.0] * 200 + [1.0] * 2_000, "changed"),
    ],
)
def test_verdicts(values, verdict):
    found = preference_sequence(units_of(values), margin=0.01)
    assert found.verdict == verdict
    if verdict == "b":
        before = preference_sequence(units_of(values[: found.decided_after - 1]))
        assert before.lower[-1] <= 0.5 < found.lower[found.decided_after - 1]
    assert (found.decided_after is None) == (verdict == "open")


def test_the_interval_in_a_week_is_that_of_a_week_later():
    rng = np.random.default_rng(1)
    values = rng.choice([0.0, 0.5, 1.0], 1_700)
    now = preference_sequence(units_of(values[:1_000], days=10))
    later = preference_sequence(units_of(values, days=17))
    assert now.users_a_day == pytest.approx(100, rel=0.01)
    n_users, half_width = now.in_a_week
    assert n_users == pytest.approx(1_700, rel=0.01)
    assert half_width == pytest.approx((later.upper[-1] - later.lower[-1]) / 2, rel=0.1)


def test_every_form_of_file_gives_the_same_credits(tmp_path):
    rows = made_up(n=200)
    rows["credit"] = rows.credit.round(2)
    parts = [rows[:70], rows[70:120], rows[120:]]
    parts[0].to_parquet(tmp_path / "1.parquet")
    parts[1].assign(time=parts[1].time.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")).to_csv(
        tmp_path / "2.csv", index=False
    )
    parts[2].to_json(tmp_path / "3.ndjson", orient="records", lines=True, date_format="iso")
    found = read_credits(tmp_path)
    np.testing.assert_array_equal(found.user, pd.factorize(rows.user)[0])
    np.testing.assert_array_equal(found.credit, rows.credit)
    np.testing.assert_array_equal(found.time, rows.time.to_numpy("datetime64[us]"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.assign(credit=r.credit * 3), "credit is [13].* rows are not in"),
        (lambda r: r.assign(credit=np.nan), "credit is (nan|missing)"),
        (lambda r: r.assign(credit="much"), "no number"),
        (lambda r: r.assign(time=1_790_000_000), "unit is not known"),
        (lambda r: r.assign(time="yesterday"), "is no time"),
        (lambda r: r.assign(user=None), "user is missing in 50 rows"),
        (lambda r: r.assign(user=[["u"]] * 50), "user has values that are no ids"),
        (lambda r: r.rename(columns={"user": "person"}), "no column 'user'; there are 'person'"),
    ],
)
def test_wrong_files_are_refused(tmp_path, change, message):
    file = tmp_path / "credits.parquet"
    change(made_up(n=50)).to_parquet(file)
    with pytest.raises(DataError, match=message):
        read_credits(file)


def test_wrong_calls_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_credits(tmp_path / "nothing")
    with pytest.raises(DataError, match="no file of credits"):
        read_credits(tmp_path)
    (tmp_path / "a.csv").write_bytes(b'"\xff\n1,2\n')
    with pytest.raises(DataError):
        read_credits(tmp_path, CreditColumns())
    with pytest.raises(DataError, match="--until 2026-11-02"):
        first_days(as_credits(made_up(n_days=1)))
    with pytest.raises(UsageError, match="margin is"):
        preference_sequence(units_of([0.5]), margin=0.7)


def test_the_command(tmp_path, capsys):
    made_up(shares=(0.1, 0.5, 0.4)).rename(columns={"user": "visitor"}).to_csv(
        tmp_path / "credits.csv", index=False
    )
    figure = tmp_path / "sequence.svg"
    call = ["interleave", "analyse", str(tmp_path / "credits.csv"), "--user-column", "visitor"]
    assert run([*call, "--figure", str(figure), "--until", "2026-11-10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "b"
    assert found["interval"][0] > 0.5
    assert found["n_open_pages"] == 0
    assert "<svg" in figure.read_text()
    assert run(call) == 0
    assert "users prefer b" in capsys.readouterr().out
    assert run(call[:3]) == 3
    assert run([*call, "--figure", str(figure)]) == 2
