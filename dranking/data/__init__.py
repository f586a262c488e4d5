"""Ranking data: query blocks in memory, data sets on disk, and users' own arrays, tables and files.

In memory
---------
A data set (`dataset.Dataset`) is a sequence of blocks that are read on demand. A block
(`blocks.QueryBlock`) holds whole queries, one document per row, the documents of a query adjacent:

| field | shape and dtype | meaning |
| --- | --- | --- |
| `features` | (n_documents, n_features) float32, dense or `csr_array` | finite values |
| `relevance` | (n_documents,) float64 | grades; NaN for an unlabelled document |
| `query_ptr` | (n_queries + 1,) int64 | rows `query_ptr[q]:query_ptr[q + 1]` are query q |
| `query_ids` | (n_queries,) pyarrow int64 or string | no nulls |
| `doc_ids`, `comments` | (n_documents,) pyarrow, or None | from the source |
| `query_weights` | (n_queries,) float64, or None | finite, at least 0; None for ones |

A block has at most `blocks.MAX_BLOCK_DOCUMENTS` documents, unless a single query has more. The data
set fixes the borders of blocks, and all sums run over blocks in order, so that results do not
depend on the number of workers. Equal data in equal blocks has equal fingerprints, whatever the
form in which the data is stored. The exception is parquet: there the bytes of the files count.

On disk
-------
| subpackage | form | class or functions | in memory at a time |
| --- | --- | --- | --- |
| `store` | dataset directory | `StoredDataset`, `write_dataset` | one block |
| `parquet` | flat parquet files | `ParquetDataset`, `write_parquet` | one block, all query ids |
| `tables` | arrays and tables in memory | `from_arrays`, `from_table` | everything |

The docstring of each subpackage describes its files and its limits. `regrouping` holds the tasks
that bring the rows of queries together. `dranking.ingestion` stores any form as a dataset
directory, and its `open_dataset` recognises the form of a path.

Views
-----
`transforms` and `scaling` scale features (the scalings are recorded with the data and with models;
quantiles are fitted by `quantile_sketch`), `forms_dataset` offers features in several forms side by
side, `column_profiles` says what the values of features are like, `Dataset.select_queries` masks
queries, and `concatenated` puts data sets behind one another. `digits_ranking` makes a small real
task from scikit-learn's digits.
"""
