"""Tiles and feature blocks cover the data evenly."""

import numpy as np
import pytest

from dranking.engine.tile_sizes import feature_borders


@pytest.mark.parametrize(
    ("n_features", "parts"), [(1, 1), (7, 3), (7, 7), (64, 2), (128, 2), (1000, 3), (1000, 16)]
)
def test_feature_blocks_cover_all_features_evenly(n_features, parts):
    borders = feature_borders(n_features, parts)
    assert (borders[0], borders[-1], len(borders)) == (0, n_features, parts + 1)
    widths = np.diff(borders)
    stored = n_features >= 64 * parts  # then they begin where a stored chunk of 32 begins
    assert widths.min() > 0
    assert widths.max() - widths.min() <= (64 if stored else 1)
    assert not stored or (borders[:-1] % 32 == 0).all()
