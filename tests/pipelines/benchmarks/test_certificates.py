"""The benchmark of certificates counts every part once, and puts the functions back."""

import pytest

from pipelines.benchmarks import certificates
from pipelines.benchmarks.certificates import Part, timed
from pipelines.benchmarks.greedy import Size


class Work:
    """One function calls the other."""

    def part(self):
        pass

    def whole(self):
        self.part()


def test_outermost_calls_count_once():
    original = Work.part
    with timed((Part(Work, "whole"), Part(Work, "part"))) as spent:
        Work().whole()
        Work().part()
    assert len(spent) == 2  # `whole`, with the part in it, and the part alone
    with timed((Part(Work, "part", in_tasks=True),)) as spent:
        Work().whole()
        Work().part()
    assert len(spent) == 2
    assert Work.part is original


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")  # on noise
def test_every_figure_is_measured(monkeypatch):
    monkeypatch.setattr(certificates, "QUICK", Size(600, 12, 20, {}, {}))
    figures = certificates.measure(certificates.parser("").parse_args(["--quick"]))
    assert len({item.name for item in figures}) == len(figures) == 18
    assert all(item.value > 0.0 for item in figures)
