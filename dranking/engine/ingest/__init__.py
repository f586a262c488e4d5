"""Ingest on an executor: plan, scan, lay out, exchange where rows lie apart, write.

`open_rows` finds the rows of files, of text or of a table; `order_rows` finds the queries and
decides what each task writes; `ingest.ingest` puts these steps together. The tasks themselves are
functions of `dranking.data.ingest`. The driver holds one line per query and a few numbers per
segment and range of rows, never documents.
"""
