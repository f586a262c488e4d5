"""Statistics stores: per-query statistics of a data set, from which RankRLS trains.

For every query a store holds A_q = X_q' X_q, b_q = X_q' y_q, y_q' y_q and the number of labelled
documents, with features and labels centred within the query (`dranking.rankrls.greedy` explains
their use). The blocks of a store correspond to the blocks of the data. The statistics of queries
add up, so queries are appended and expire without the data. Where several blocks have a query, each
keeps the *pieces* of its own documents, with their means; the last of these blocks carries the
merged statistics, which are written beside it in the same commit, and the others leave the query
out when they are read (`merged_queries`). One query id is one query; a part expires with its
pieces. A store without such queries has no merged folder. Where labels change, the statistics of
the changed queries alone are computed anew and written beside their block, until they are more than
an eighth of its queries; then the block is written anew. Sums always run over the blocks, and over
the queries of a block, in order, so a changed store gives, bit for bit, the results of a store that
is built from the same blocks.

On disk
-------
A directory::

    manifest.json              schema 5: names, scalings, type of times, an entry for every block
    blocks/<token>-000000/
        queries.arrow          a query per row: id, sizes, label norm, label digest, weight, time
        statistics.rows        rows of A_q feature by feature, diagonals of A_q, b_q, means
    blocks/<token>-000000/     changed queries of a block: the entry of the block names the folder
        queries.arrow          all queries of the block, and which of them changed
        statistics.rows        as above, of the changed queries alone
    blocks/<token>-000000/     merged queries of a block: the entry of the block names the folder
        queries.arrow          all queries of the block, which it carries, and which are merged
        statistics.rows        as above, of the merged queries that the block carries

``statistics.rows`` is a row file (`row_files`): n_features + 3 arrays of (n_queries, n_features)
float64. The manifest holds the CRC-32C of ``queries.arrow`` and of the index of
``statistics.rows``, and the index holds the CRC-32C of every row.

Modules: `per_query` (in memory), `query_times`, `manifest`, `query_tables`, `block_folder` and
`row_files` (on disk), `dataset` (`StatisticsDataset`), `changed_queries`, `merge_plans`,
`merged_queries`, `write_append_expire` (changes, under a lock file).

Limits: uncompressed, 8 (n_features + 3) n_features bytes per query; one process changes a store at
a time, and readers go on with what was there when they opened it.
"""
