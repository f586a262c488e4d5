"""Files with bytes that are not UTF-8."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.clicks.logs import utf8

PIECES = [*(text.encode() for text in "a\né€😀"), b"\xff", b"\xe2\x82", b"\x80", b"\xc0"]
CONTENT = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


@given(content=CONTENT, piece=st.integers(1, 8), reads=st.lists(st.integers(1, 9), min_size=1))
def test_each_wrong_byte_is_a_nul_and_no_byte_moves(content, piece, reads):
    """Python's surrogates stand for single bytes that it could not decode."""
    text = content.decode("utf-8", "surrogateescape")
    expected = "".join("\0" if "\udc80" <= c <= "\udcff" else c for c in text).encode()
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utf8, "PIECE_BYTES", piece)
        file = utf8.mended(io.BytesIO(content))
        while read := file.read(reads[len(found) % len(reads)]):
            found.append(read)
    assert b"".join(found) == expected
    assert len(expected) == len(content)
