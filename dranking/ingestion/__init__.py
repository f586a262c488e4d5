"""From tables, text, files or Dask collections to data sets.

`open` recognises the form of a path or table, and opens it. An ingest runs on an executor:
`open_rows` finds the rows of files, of text or of a table; `order_rows` finds the queries and
decides what each task writes; `ingest.ingest` puts these steps together. The tasks themselves are
functions of `dranking.ingestion.rows`. `ingest_plan` plans the segments, `exchange_rows` brings the
rows of a query together, `fit` and `known_values` find scalings and values for missing ones, and
`segment_memory` and `gathering` bound what is in memory at a time. The driver holds one line per
query and a few numbers per segment and range of rows, never documents.

`letor` reads LETOR / SVMlight text, by the loops in `kernels`; `collections` makes blocks of Dask
collections where their partitions lie, and `to_dask` makes Dask collections of data sets.
"""
