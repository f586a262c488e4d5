"""The package docstring tells which files one round passes, and in which order."""

import re
import sys
import threading
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

import dranking
import dranking.rankrls.greedy as greedy
from dranking.data.tables.in_memory import from_arrays
from dranking.rankrls.greedy import selection
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.kernels.gram import dense
from dranking.rankrls.kernels.lqo import pivots, state

PACKAGE = Path(dranking.__file__).parent
NUMBERS = {"nine": 9, "twelve": 12}
MODULE = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)`")


def told():
    """The modules of the numbered steps, in order, and those of the sentences after the steps."""
    steps, rest = greedy.__doc__.split("read in this order:")[1].split("The plumbing is values")
    rest = rest.split("`checkpoint` saves")[0]
    numbered = re.split(r"^\d+\. ", steps, flags=re.MULTILINE)[1:]
    return [MODULE.search(step)[1] for step in numbered], MODULE.findall(rest)


class Trace:
    """The modules whose Python functions run, in the order of their first calls, by thread."""

    def __init__(self):
        self.passed = defaultdict(dict)
        self.running = False

    def __call__(self, frame, event, argument):
        if not self.running or event != "call":
            return
        if (file := frame.f_code.co_filename).startswith(f"{PACKAGE}/"):
            module = ".".join(Path(file).relative_to(PACKAGE).with_suffix("").parts)
            kind = threading.current_thread().name.split("-")[0]
            self.passed[kind].setdefault(module)

    def record(self, advance, gram, *others):
        """Run a round; `passed` is then of the last round with a pass over the data."""
        before, n_fetches = self.passed, gram.n_fetches
        self.passed, self.running = defaultdict(dict), True
        sys.setprofile(self)
        try:
            advance(gram, *others)
        finally:
            sys.setprofile(None)
            self.running = False
        if gram.n_fetches == n_fetches:
            self.passed = before


@pytest.fixture
def trace():
    """A trace that every thread calls which starts from now on."""
    trace = Trace()
    threading.setprofile(trace)
    yield trace
    threading.setprofile(None)


def test_the_docstring_tells_the_files_of_a_round_in_order(monkeypatch, trace):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8)).astype(np.float32)
    y = (X @ rng.normal(size=8)).round()
    data = from_arrays(X, y, np.repeat(np.arange(40), 10))
    rules, advance = SelectionRules(5, prefetch=2), selection._advance
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        selection.select_paths(data, [1.0], rules, executor=client)  # compiles
        monkeypatch.setattr(selection, "_advance", partial(trace.record, advance))
        selection.select_paths(data, [1.0], rules, executor=client)

    steps, others = told()
    compiled = {"rankrls.kernels.lqo.pivots", "kernels.machine.instructions"}  # kernels call them
    passed = set().union(*trace.passed.values())
    assert passed | compiled == {*steps, *others}
    said = re.search(r"(\w+) files of the algorithm and\s+(\w+) of plumbing", greedy.__doc__)
    assert (len(steps), len(others)) == (NUMBERS[said[1]], NUMBERS[said[2]])
    for thread in ("MainThread", "Dask"):
        modules = list(trace.passed[thread])
        order = [module for module in modules if module in steps]
        assert order == [module for module in steps if module in modules]


def test_the_kernels_of_a_round_call_what_the_docstring_tells():
    assert state.find_pivots is pivots.find_pivots
    assert dense.fma is state.fma
