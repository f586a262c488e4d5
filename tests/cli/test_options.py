"""The options that several commands share."""

import re
from typing import get_args

from dranking.cli.options import Metrics
from dranking.metrics.measures import MEASURES


def test_the_help_of_metrics_names_every_measure():
    _, option = get_args(Metrics)
    assert set(MEASURES) <= set(re.findall(r"\w+", option.help))
