"""Flat parquet files, read in place as a data set.

A flat table has one row per document: ``qid``, ``relevance``, optionally ``docid`` and ``weight``
(or what `dranking.data.roles.Columns` names instead), and the features (one column of numbers each,
or a single column ``features`` of fixed-size lists). `dranking.data.tables` says which columns
count as what. The file's metadata may record scalings (keys ``'dranking.transforms'`` and
``'dranking.scaled-features'``).

`listing` says which files of a folder are read, `part` reads the footer of a file and opens it,
`files` reads ranges of rows across row groups and files, `common_layout` finds the columns that all
files share, `dataset` makes blocks (`ParquetDataset`) and writes data sets (`write_parquet`).

Files in folders ``key=value`` are read like the others; the values of the folders are passed over
(`ingest` makes features or a filter of them).

Limits: the rows of a query are adjacent, unless rows are scored alone; all files have the same
columns; features are dense; missing feature values are errors. Opening scans the query ids and the
relevance of all files; memory then holds one entry per query, or per run of rows of a query.
"""
