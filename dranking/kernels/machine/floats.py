"""The rounding of numbers."""

import numpy as np

EPSILON = float(np.finfo(np.float64).eps)
"""Rounding moves a number in float64 by at most half of this share."""
