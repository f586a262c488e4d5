"""64-bit hashes of strings: equal on every machine, different under different keys."""

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel

FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
SECOND_FACTOR = np.uint64(0x94D049BB133111EB)


@kernel
def mix(word: np.uint64) -> np.uint64:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): a bijection of 64-bit words."""
    word = (word ^ (word >> np.uint64(30))) * FIRST_FACTOR
    word = (word ^ (word >> np.uint64(27))) * SECOND_FACTOR
    return word ^ (word >> np.uint64(31))


@kernel
def hash_strings(
    pointers: NDArray[np.int64], text: NDArray[np.uint8], key: np.uint64, out: NDArray[np.uint64]
) -> None:
    """Hash the strings between (n + 1,) borders in `text` into `out` (n,), eight bytes a step."""
    for i in range(len(out)):
        start, stop = pointers[i], pointers[i + 1]
        state = mix(key ^ np.uint64(stop - start))
        while start < stop:
            word, shift = np.uint64(0), np.uint64(0)
            for position in range(start, min(start + 8, stop)):
                word |= np.uint64(text[position]) << shift
                shift += np.uint64(8)
            state = mix(state ^ word)
            start += 8
        out[i] = state


@kernel
def hash_words(words: NDArray[np.uint64], key: np.uint64, out: NDArray[np.uint64]) -> None:
    """Hash (n,) integers into `out` (n,)."""
    for i in range(len(out)):
        out[i] = mix(key ^ mix(words[i]))
