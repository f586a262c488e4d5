"""Plain loops: rows brought together by query, and cut into blocks."""


def regrouped(qids):
    """Row numbers by query: queries by first appearance, rows of a query in order."""
    rows = {}
    for row, qid in enumerate(qids):
        rows.setdefault(qid, []).append(row)
    return list(rows.values())


def scattered(qids):
    """The queries whose rows are not adjacent."""
    groups = regrouped(qids)
    return [rows for rows in groups if rows != list(range(rows[0], rows[0] + len(rows)))]


def blocks(groups, max_documents):
    """Queries packed in order into blocks of at most `max_documents` rows, or of one query."""
    packed = []
    for rows in groups:
        if packed and sum(map(len, packed[-1])) + len(rows) <= max_documents:
            packed[-1].append(rows)
        else:
            packed.append([rows])
    return packed


def block_borders(sizes, most):
    """Borders of blocks of queries: one query after the other, as long as they fit."""
    borders, filled = [0], 0
    for query, size in enumerate(sizes):
        if filled and filled + size > most:
            borders.append(query)
            filled = 0
        filled += size
    return [*borders, len(sizes)] if sizes else [0]
