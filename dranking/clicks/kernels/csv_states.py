"""The ends of records of CSV, by an automaton of four states: the rule of Arrow's parser.

A quote opens a quoted field only as its first byte, and only such a field holds delimiters and line
breaks; two quotes inside of it stand for one. Elsewhere a quote is a character like others.
A record ends at a line feed or a carriage return that is outside of quoted fields.

A byte takes each state to one state, and so does a text: its map of states is known without the
state before it. So texts are followed side by side, and then their maps are composed.
"""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel

FIELD_START, IN_FIELD, IN_QUOTED_FIELD, AT_QUOTE_OF_QUOTED_FIELD = range(4)
"""States. In the last, the quoted field has ended, unless the next byte is another quote."""

N_STATES = 4
OTHER, QUOTE, DELIMITER, LINE_BREAK = range(4)

NEXT_STATE = np.array(
    [
        # other, quote, delimiter, line break
        [IN_FIELD, IN_QUOTED_FIELD, FIELD_START, FIELD_START],
        [IN_FIELD, IN_FIELD, FIELD_START, FIELD_START],
        [IN_QUOTED_FIELD, AT_QUOTE_OF_QUOTED_FIELD, IN_QUOTED_FIELD, IN_QUOTED_FIELD],
        [IN_FIELD, IN_QUOTED_FIELD, FIELD_START, FIELD_START],
    ]
)


def kinds_of_bytes(delimiter: str) -> NDArray[np.uint8]:
    """(256,) kind of each byte: `OTHER`, `QUOTE`, `DELIMITER` or `LINE_BREAK`."""
    kinds = np.full(256, OTHER, np.uint8)
    kinds[ord('"')] = QUOTE
    kinds[ord(delimiter)] = DELIMITER
    kinds[ord("\n")] = kinds[ord("\r")] = LINE_BREAK
    return kinds


@kernel
def follow(text: NDArray[np.uint8], kinds: NDArray[np.uint8], states: NDArray[np.int64]) -> None:
    """Take (n_states,) states over (n_bytes,) bytes of text, in place; O(n_bytes n_states)."""
    before = QUOTE
    for byte in text:
        kind = kinds[byte]
        if kind == OTHER and before == OTHER:  # a second such byte changes no state
            continue
        before = kind
        for row in range(len(states)):
            states[row] = NEXT_STATE[states[row], kind]


@kernel
def record_end(text: NDArray[np.uint8], kinds: NDArray[np.uint8], states: NDArray[np.int64]) -> int:
    """The first byte of (n_bytes,) text that ends a record, or -1; O(n_bytes).

    `states` (1,) is the state before the text; it becomes the state after that byte, or after the
    text if there is no such byte.
    """
    for place, byte in enumerate(text):
        kind, state = kinds[byte], states[0]
        states[0] = NEXT_STATE[state, kind]
        if kind == LINE_BREAK and state != IN_QUOTED_FIELD:
            return place
    return -1
