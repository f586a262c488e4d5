import math

import numpy as np
import pytest

from dranking.errors import UsageError
from dranking.metrics.conventions import CONVENTIONS, get_convention

LOG3, LOG4, LOG5 = math.log2(3), 2.0, math.log2(5)


@pytest.mark.parametrize(
    ("name", "gains", "discounts"),
    [
        ("letor4", [0, 1, 3, 15], [1, 1, 1 / LOG3, 1 / LOG4]),
        ("letor3", [0, 1, 3, 15], [1, 1, 1 / LOG3, 1 / LOG4]),
        ("mslr", [0, 1, 3, 15], [1, 1, 1 / LOG3, 1 / LOG4]),
        ("trec", [0, 1, 2, 4], [1, 1 / LOG3, 1 / LOG4, 1 / LOG5]),
        ("standard", [0, 1, 3, 15], [1, 1 / LOG3, 1 / LOG4, 1 / LOG5]),
    ],
)
def test_gains_and_discounts(name, gains, discounts):
    convention = get_convention(name)
    np.testing.assert_array_equal(convention.gains(np.array([0.0, 1.0, 2.0, 4.0])), gains)
    np.testing.assert_allclose(convention.discounts(4), discounts, rtol=1e-15)


def test_gains__grades_below_zero_gain_nothing():
    for convention in CONVENTIONS.values():
        assert convention.gains(np.array([-1.0]))[0] == 0.0


def test_get_convention__default_and_case():
    assert get_convention().name == "standard"
    assert get_convention("LETOR4").name == "letor4"
    assert get_convention(CONVENTIONS["trec"]) is CONVENTIONS["trec"]


def test_get_convention__unknown_name_lists_the_known():
    with pytest.raises(UsageError, match="standard, letor4, letor3, mslr, trec"):
        get_convention("letor5")
