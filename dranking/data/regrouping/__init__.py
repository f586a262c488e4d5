"""Rows in any order brought together by query, with tasks that know nothing of each other.

The rows of a data set have numbers, from 0, in the order of their files, row groups and rows. Any
range of rows can be scanned alone:

1. `query_lines.query_lines` reduces the ids of a range to one line per query: a 64-bit hash of the
   id, the query's first and last row in the range, and its number of rows.
   `query_lines.merge_lines` merges lines of several ranges, in any order and grouping.
2. `layout.summarize` orders the queries of a part of the hashes by first row, and tells whether the
   rows of each query are adjacent; `layout.order_queries` joins such parts, a range of first rows
   at a time, and `layout.plan_segments` cuts the queries into blocks and segments.
3. Adjacent rows are read by segment. Other rows are exchanged: `rows_by_bucket.first_rows` finds
   the first row of the query of every row of a range, `rows_by_bucket.split_rows` sorts the range
   by bucket (a range of first rows), and `rows_by_bucket.join_rows` puts the rows of a bucket in
   order. The result is the stable regrouping of all rows: queries by first appearance, rows of a
   query in order.

All functions are pure: a task that is run again gives the same result. Hashes of two ids may be
equal; whoever makes blocks compares the true ids (`layout.check_queries`), and the caller starts
anew with another key.
"""
