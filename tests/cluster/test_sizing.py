"""The sizes in the README are those that a selection plans with."""

import re
from types import SimpleNamespace

import pytest

from dranking.data.blocks import MAX_BLOCK_DOCUMENTS, BlockInfo
from dranking.engine.memory import MEMORY_SHARE
from dranking.rankrls.leave_query_out.memory_plan import BLOCKS_IN_FLIGHT, Needs
from tests.cluster.conftest import FOLDER

README = (FOLDER / "README.md").read_text()
ROWS = re.findall(
    r"^\| ([\d,]+) \| ([\d,]+) \| (\d+) \| (\d+) \| ([\d.,]+) GB \| ([\d.,]+) GB \|", README, re.M
)


class Data:
    """A dense data set of which only the sizes are known."""

    is_sparse = in_memory = False
    bytes_ahead = 0

    def __init__(self, m, n, per_query):
        self.n_features, self.n_queries, self.n_blocks = (
            n,
            m // per_query,
            -(-m // MAX_BLOCK_DOCUMENTS),
        )
        in_block = min(m, MAX_BLOCK_DOCUMENTS)
        block = BlockInfo(in_block, -(-in_block // per_query), in_block * n)
        self.blocks = [block] * (self.n_blocks - 1)
        rest = m - in_block * (self.n_blocks - 1)
        self.blocks.append(BlockInfo(rest, -(-rest // per_query), rest * n))


def needs(m, n, k, per_query, n_workers):
    executor = SimpleNamespace(in_process=False, n_slots=n_workers)
    return Needs(Data(m, n, per_query), k, executor)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_table(row):
    m, n, k, per_query = (int(text.replace(",", "")) for text in row[:4])
    in_memory, streamed = (1e9 * MEMORY_SHARE * float(text.replace(",", "")) for text in row[4:])
    assert needs(m, n, k, per_query, 1).total(True, True, 1) == pytest.approx(in_memory, rel=0.05)
    assert needs(m, n, k, per_query, 32).total(False, True, 1) == pytest.approx(streamed, rel=0.05)


def test_the_table_has_rows():
    assert len(ROWS) == 4


@pytest.mark.parametrize("n_lambdas", [1, 11])
@pytest.mark.parametrize(("m", "n", "k"), [(10**6, 136, 20), (10**7, 700, 50)])
def test_the_formula(m, n, k, n_lambdas):
    q, lambdas = m // 100, n_lambdas
    formula = 4 * m * n + 8 * q * n * (min(n, lambdas * k + 4) + 8 * lambdas + 3)
    formula += 16 * lambdas * q * (k * k + k + 1)
    if lambdas == 1:
        assert formula == 4 * m * n + 8 * q * n * (k + 15) + 16 * q * (k * k + k + 1)
    # What is of blocks, rows of sums for each, is left out of it.
    assert needs(m, n, k, 100, 8).total(True, True, lambdas) == pytest.approx(formula, rel=0.03)
    streamed = needs(m, n, k, 100, 8).stream
    assert streamed == 8 * 196_608 * n == 8 * BLOCKS_IN_FLIGHT * 4 * MAX_BLOCK_DOCUMENTS * n
    for text in ("196,608 n", "(4 m n  +  8 q n (k + 15)  +  16 q (k² + k + 1)) / 0.7  bytes"):
        assert text in README
