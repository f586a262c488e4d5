"""Words and lines in text that is given as bytes.

Text is uint8 and ends in a newline, which is where every scan stops at the latest. Helpers of hot
loops have a single way out: only then does Numba inline them without counting references.
"""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel

TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, MINUS, DOT, ZERO, COLON, EQUALS = b"\t\n\r #+-.0:="
LOWER_E, UPPER_E = b"eE"


@kernel
def is_blank(byte: int) -> bool:
    """Whether a byte separates words within a line."""
    return byte == SPACE or byte == TAB or byte == RETURN


@kernel
def ends_word(byte: int) -> bool:
    """Whether a byte ends a word: a blank, the start of a comment, or the line's end."""
    return is_blank(byte) or byte == NEWLINE or byte == HASH


@kernel
def is_alphanumeric(byte: int) -> bool:
    """Whether a byte is a letter, a digit or an underscore of ASCII."""
    letter = byte | 32  # lower case
    return 97 <= letter <= 122 or 48 <= byte <= 57 or byte == 95


@kernel
def skip_blanks(text: NDArray[np.uint8], position: int) -> int:
    """The first position from here on that holds no blank."""
    while is_blank(text[position]):
        position += 1
    return position


@kernel
def word_end(text: NDArray[np.uint8], position: int) -> int:
    """Where the word that stands here ends."""
    while not ends_word(text[position]):
        position += 1
    return position


@kernel
def line_end(text: NDArray[np.uint8], position: int) -> int:
    """Where the newline of this line is."""
    while text[position] != NEWLINE:
        position += 1
    return position


@kernel
def matches(text: NDArray[np.uint8], position: int, word: NDArray[np.uint8]) -> bool:
    """Whether a word, which holds no newline, stands at a position."""
    for at in range(len(word)):
        if text[position + at] != word[at]:
            return False
    return True


@kernel
def append_bytes(
    text: NDArray[np.uint8], start: int, stop: int, out: NDArray[np.uint8], filled: int
) -> int:
    """Copy `text[start:stop]` behind what `out` holds; return how much it then holds."""
    for position in range(start, stop):
        out[filled] = text[position]
        filled += 1
    return filled
