"""Who is told when this process begins to compile; imports nothing, so that `--help` stays fast."""

from collections.abc import Callable

_waiting: list[Callable[[], None]] = []


def tell_when_compiling(function: Callable[[], None]) -> None:
    """Call a function once, when the first kernel that the cache does not hold is compiled."""
    _waiting.append(function)


def compiling() -> None:
    """Tell those who wait that a compilation begins."""
    while _waiting:
        _waiting.pop()()
