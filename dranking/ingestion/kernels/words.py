"""Words and lines in text given as bytes.

Text is uint8 and ends with a newline, where every scan stops at the latest. Helpers of hot loops
have a single return statement: only then does Numba inline them without counting references.
"""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel

TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, MINUS, DOT, ZERO, COLON, EQUALS = b"\t\n\r #+-.0:="
LOWER_E, UPPER_E = b"eE"


@kernel
def is_blank(byte: int) -> bool:
    """Return whether a byte separates words within a line."""
    return byte == SPACE or byte == TAB or byte == RETURN


@kernel
def ends_word(byte: int) -> bool:
    """Return whether a byte ends a word: a blank, the start of a comment, or the end of a line."""
    return is_blank(byte) or byte == NEWLINE or byte == HASH


@kernel
def is_alphanumeric(byte: int) -> bool:
    """Return whether a byte is an ASCII letter, digit or underscore."""
    letter = byte | 32  # lower case
    return 97 <= letter <= 122 or 48 <= byte <= 57 or byte == 95


@kernel
def skip_blanks(text: NDArray[np.uint8], position: int) -> int:
    """Return the first position from `position` on that holds no blank."""
    while is_blank(text[position]):
        position += 1
    return position


@kernel
def word_end(text: NDArray[np.uint8], position: int) -> int:
    """Return the end of the word at a position."""
    while not ends_word(text[position]):
        position += 1
    return position


@kernel
def line_end(text: NDArray[np.uint8], position: int) -> int:
    """Return the position of the newline that ends the line of a position."""
    while text[position] != NEWLINE:
        position += 1
    return position


@kernel
def matches(text: NDArray[np.uint8], position: int, word: NDArray[np.uint8]) -> bool:
    """Return whether a word without newlines stands at a position."""
    for at in range(len(word)):
        if text[position + at] != word[at]:
            return False
    return True


@kernel
def append_bytes(
    text: NDArray[np.uint8], start: int, stop: int, out: NDArray[np.uint8], filled: int
) -> int:
    """Append `text[start:stop]` to the `filled` bytes of `out`; return the new number of bytes."""
    for position in range(start, stop):
        out[filled] = text[position]
        filled += 1
    return filled
