"""Stored scores of documents, whoever computed the scores.

`score_directory` writes and reads a directory of parquet files, one file for every 16 blocks, which
tasks write wherever they run:

| file | content |
| --- | --- |
| ``part-000017.parquet`` | columns ``qid``, ``docid``, ``score``, ``rank``, in data set order |
| ``_SUCCESS`` | JSON: names, sizes and checksums of the parts; written last |

The rank counts from 1 within a query, in the order of trec_eval (`prediction_files.trec_order`).
Behind a URL, the names of parts also hold a token, so that nothing is overwritten before the end.
Tools that read folders of parquet files read the directory as it is.

`score_table` matches scores to the documents of a data set, and `read_scores` reads them from such
a directory, TREC runs, CSV and parquet.
"""
