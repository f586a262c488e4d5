"""Whether kernels are compiled, for tests whose sizes are made for machine code."""

import pytest
from numba import config

COMPILED = not config.DISABLE_JIT
needs_compiled = pytest.mark.skipif(not COMPILED, reason="takes too long as plain Python")
