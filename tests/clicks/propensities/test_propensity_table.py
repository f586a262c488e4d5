"""Propensities that are given as tables."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dranking.clicks.propensities.propensity_table import read_propensity_table
from dranking.errors import DataError


def curves_of(path, depth=None):
    return {curve.context: curve.a for curve in read_propensity_table(path, depth).curves}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1,1,", "2,.5,", "2,.3,", "3,.1,"], "position 2 is there twice"),
        (["1,1,", "1,1,desk", "2,.5,desk", "1,.9,desk"], "position 1 of context 'desk' is there t"),
        (["1,1,", "3,.5,"], "without gaps"),
        (["1,1,desk", "2,.5,desk"], "give slopes a for all contexts"),
    ],
)
def test_positions_that_are_missing_or_there_twice_are_refused(tmp_path, lines, message):
    (tmp_path / "table.csv").write_text("\n".join(["position,propensity,context", *lines, ""]))
    with pytest.raises(DataError, match=message):
        read_propensity_table(tmp_path / "table.csv")


@pytest.mark.parametrize("names", [("7", "0"), ("007", "7"), ("true", "false"), ("NA", "desk")])
def test_contexts_are_texts_whatever_they_read_like(tmp_path, names):
    lines = ["position,propensity,context", "1,1,", "2,.5,"]
    for number, name in enumerate(names):
        lines += [f"2,{0.1 * number + 0.1},{name}", f"1,1,{name}"]
    (tmp_path / "table.csv").write_text("\n".join([*lines, ""]))
    expected = {name: (1.0, 0.1 * number + 0.1) for number, name in enumerate(names)}
    assert curves_of(tmp_path / "table.csv") == {None: (1.0, 0.5), **expected}
    assert curves_of(tmp_path / "table.csv", depth=1) == dict.fromkeys([None, *names], (1.0,))


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_contexts_of_parquet_may_be_numbers(tmp_path, kind):
    context = pa.array([None, None, 0, 0, 12, 12]).cast(kind)
    columns = {"position": [1, 2] * 3, "propensity": [1, 0.5, 1, 0.4, 1, 0.3], "context": context}
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    expected = {None: (1.0, 0.5), "0": (1.0, 0.4), "12": (1.0, 0.3)}
    assert curves_of(tmp_path / "table.parquet") == expected
