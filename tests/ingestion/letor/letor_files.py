"""Hypothesis strategies that draw LETOR text."""

from hypothesis import strategies as st

BLANKS = st.sampled_from([b" ", b" ", b" ", b"  ", b"\t", b" \t "])
LINE_ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b" \n"])

NUMBERS = st.one_of(
    st.sampled_from(
        b"0 0.000000 -0 -0.0 +1 1. .5 -.5 1e5 1E+05 1e-45 1e-46 1.4012984e-45 16777217 "
        b"3.4028235e38 3.4028235677973365e38 007 0.1000000000000000055511151231257827".split()
    ),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda x: repr(x).encode()),
    st.floats(-1e3, 1e3).map(lambda x: f"{x:.6f}".encode()),
    st.integers(-(10**25), 10**25).map(lambda x: b"%d" % x),
)
GRADES = st.one_of(
    st.integers(-1, 4).map(lambda x: b"%d" % x),
    st.floats(0, 1e6).map(lambda x: repr(x).encode()),
    st.sampled_from([b"-1.0", b"-0", b"1e30", b"0.12345678901234567", b"-1.00000000000000000000"]),
)
COMMENTS = st.one_of(
    st.just(b""),
    st.sampled_from(
        [
            b"#docid = GX008-86-4444840 inc = 1 prob = 0.086622",
            b"# docid=7",
            b"#docid =",
            b"# mydocid = 3 docid = 4",
            b"#",
            b"# a # b",
            "# käse docid=Straße".encode(),
        ]
    ),
)
NOT_ROWS = st.sampled_from([b"\n", b"\r\n", b" \t\n", b"# a comment qid:1\n", b"  #\n"])
QIDS = st.sampled_from([b"1", b"2", b"01", b"12345678901234567890123", b"q-a:b", "ü".encode()])


@st.composite
def rows(draw, qid, numbers=NUMBERS, max_features=6):
    """One line."""
    indices = sorted(draw(st.sets(st.integers(1, max_features), max_size=max_features)))
    words = [draw(GRADES), b"qid:" + qid]
    words += [b"%d:%s" % (index, draw(numbers)) for index in indices]
    line = b"".join(word + draw(BLANKS) for word in words)
    return line.rstrip(b" \t") + draw(BLANKS) + draw(COMMENTS) + draw(LINE_ENDS)


@st.composite
def texts(draw, numbers=NUMBERS, adjacent=True):
    """The text of a file with at least one row."""
    qids = draw(st.lists(QIDS, min_size=1, max_size=8, unique=adjacent))
    lines = []
    for qid in qids:
        for _ in range(draw(st.integers(1, 4))):
            lines += draw(st.lists(NOT_ROWS, max_size=1))
            lines.append(draw(rows(qid, numbers)))
    text = b"".join(lines)
    return text.rstrip(b"\r\n") if draw(st.booleans()) else text
