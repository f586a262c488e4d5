"""LETOR text read line by line with regular expressions, for comparison."""

import math
import re
from dataclasses import dataclass, field

import numpy as np

BLANKS = rb"[ \t\r]+"
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
DOC_ID = re.compile(rb"(?<![A-Za-z0-9_])docid[ \t\r]*=[ \t\r]*([^ \t\r]+)")
MAX_INDEX = 2**31 - 2


class FlawError(Exception):
    """Where the text is wrong, and a phrase that says what about."""

    def __init__(self, place, about):
        super().__init__(f"{place}: {about}")
        self.place = place
        self.about = about


@dataclass
class Row:
    relevance: float
    qid: str
    values: dict = field(default_factory=dict)  # index from 1 -> np.float32
    width: int = 0
    comment: str = ""
    doc_id: str = ""


def parse_line(line, place, nullable):
    """One line without its newline; None if it holds no document."""
    body, hash_sign, comment = line.partition(b"#")
    words = [word for word in re.split(BLANKS, body) if word]
    if not words:
        return None
    if not NUMBER.fullmatch(words[0]) or math.isinf(float(words[0])):
        raise FlawError(place, "expected the relevance")
    relevance = float(words[0])
    if relevance < 0 and relevance != -1:
        raise FlawError(place, "must be at least 0")
    if len(words) < 2 or not words[1].startswith(b"qid:") or words[1] == b"qid:":
        raise FlawError(place, "expected qid:<id>")
    row = Row(math.nan if relevance == -1 else relevance, "")
    for word in words[2:]:
        add_value(row, word, place, nullable)
    if hash_sign and comment.endswith(b"\r"):
        comment = comment[:-1]
    try:
        row.qid = words[1][len(b"qid:") :].decode()
        row.comment = comment.decode()
    except UnicodeDecodeError:
        raise FlawError(place, "not UTF-8") from None
    found = DOC_ID.search(comment)
    row.doc_id = found.group(1).decode() if found else ""
    return row


def add_value(row, word, place, nullable):
    index_word, colon, value_word = word.partition(b":")
    if not colon or not re.fullmatch(rb"[0-9]+", index_word):
        raise FlawError(place, "expected <index>:<value>")
    index = int(index_word)
    if index == 0:
        raise FlawError(place, "indices start at 1")
    if index > MAX_INDEX:
        raise FlawError(place, "exceeds 2147483646")
    if index <= row.width:
        raise FlawError(place, "not larger than the one before")
    row.width = index
    if value_word == b"NULL":
        if not nullable:
            raise FlawError(place, "is missing")
        value = np.float32(np.nan)
    elif NUMBER.fullmatch(value_word):
        with np.errstate(over="ignore"):
            value = np.float32(float(value_word))
        if np.isinf(value):
            raise FlawError(place, "beyond float32")
    else:
        raise FlawError(place, "not a finite number")
    row.values[index] = value


def read_rows(files, *, n_features=None, nullable=False, regroup=False):
    """Rows of several files, given as (name, bytes); raises FlawError at the first flaw."""
    rows, spans, widest = [], {}, []  # widest: of each file, the largest index and its first line
    for name, text in files:
        n_before = len(rows)
        widest.append((0, 0))
        lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        for number, line in enumerate(lines, start=1):
            place = f"{name}:{number}"
            row = parse_line(line, place, nullable)
            if row is None:
                continue
            if n_features is not None and row.width > n_features:
                raise FlawError(place, "were announced")
            if not regroup and row.qid in spans and rows[-1].qid != row.qid:
                raise FlawError(place, f"query {row.qid} appears again")
            spans.setdefault(row.qid, []).append(row)
            rows.append(row)
            if row.width > widest[-1][0]:
                widest[-1] = (row.width, number)
        if len(rows) == n_before:
            raise FlawError(name, "no documents")
        if n_features is None:
            check_widths(name, widest)
    if regroup:
        rows = [row for group in spans.values() for row in group]
    return rows


def rows_or_flaw(files, options):
    """The rows and None, or None and the first flaw."""
    try:
        return read_rows(files, **options), None
    except FlawError as flaw:
        return None, flaw


def check_widths(name, widest):
    (first, _), (last, line) = widest[0], widest[-1]
    if last == 0:
        raise FlawError(name, "no features")
    if last != first:
        raise FlawError(f"{name}:{line}", f"--n-features {max(first, last)}")


def split_queries(rows):
    """The rows of each query, for rows that are adjacent."""
    queries = []
    for row in rows:
        if not queries or queries[-1][0].qid != row.qid:
            queries.append([])
        queries[-1].append(row)
    return queries


def split_blocks(rows, max_documents):
    """Lists of queries; a query starts a block where it would not fit into the last one."""
    blocks = []
    filled = 0
    for query in split_queries(rows):
        if not blocks or filled + len(query) > max_documents:
            blocks.append([])
            filled = 0
        blocks[-1].append(query)
        filled += len(query)
    return blocks


def dense(rows, width):
    """(n_rows, width) float32."""
    rows = list(rows)
    matrix = np.zeros((len(rows), width), dtype=np.float32)
    for number, row in enumerate(rows):
        for index, value in row.values.items():
            matrix[number, index - 1] = value
    return matrix
