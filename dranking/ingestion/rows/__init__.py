"""Ingest: rows of files made into the segments of a data set, as tasks that any worker can run.

`row_source.RowSource` is what the tasks read: `parquet_rows` reads parquet files in place,
`text_rows` reads Arrow files, which tasks made of ranges of text. `plan_parquet` finds the files of
a folder, the values in the names of its folders, and one layout for files whose columns differ.

`scan` finds the queries, `exchange_tasks` brings their rows together where they lie apart, and
`segments` makes blocks, fills in missing values, scales and writes. The files that tasks leave for
each other lie in a `scratch.Scratch` place under fixed names: a task that is run again, because its
worker was lost, writes the same files again, and no other task need be run again.

`dranking.ingestion` runs these tasks.
"""
