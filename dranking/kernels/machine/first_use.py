"""Who is told when this process begins to compile, and which kernels another process compiles.

Imports nothing, so that `--help` stays fast.
"""

from collections.abc import Callable

_waiting: list[Callable[[], None]] = []
_elsewhere: dict[str, Callable[[], None]] = {}


def tell_when_compiling(function: Callable[[], None]) -> None:
    """Call a function once, when the first kernel that the cache does not hold is compiled."""
    _waiting.append(function)


def compiling() -> None:
    """Tell those who wait that a compilation begins."""
    while _waiting:
        _waiting.pop()()


def compiled_elsewhere(name: str, wait: Callable[[], None]) -> None:
    """Say that another process compiles a kernel into the cache, and how to wait for it."""
    _elsewhere[name] = wait


def before_first_call(name: str) -> None:
    """Wait for the other process that compiles a kernel, if there is one."""
    if name in _elsewhere:
        _elsewhere[name]()
        _elsewhere.pop(name, None)
