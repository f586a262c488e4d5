"""LETOR / SVMlight ranking text, read as a stream of query blocks.

Format
------
A line is ``<relevance> qid:<id> <index>:<value> ... # comment``. Feature indices start at 1 and
increase within a line; a feature that a line does not name is 0. The relevance is a number, at
least 0, or -1 for an unlabelled document. A query id is any word. Spaces or tabs separate words; a
line ends in a newline, with or without a carriage return. Blank lines and lines that are only a
comment are skipped. Numbers are finite, in any notation that Python's `float` accepts, but without
underscores.

Reading
-------
`text_source` gives chunks of whole lines, `row_buffer` tokenizes them
(`dranking.ingestion.kernels`) and makes blocks, `reader` puts both together. `invalid_lines` words
the errors, `seen_queries` finds queries whose rows are not adjacent, `regroup` sorts such rows
together, and `feature_minima` replaces missing values by minima.

Limits
------
A dense block takes at most 8 GiB, the comments of a block at most 2 GiB, and feature indices end at
`dranking.ingestion.kernels.tokenizer.MAX_INDEX`.
"""
