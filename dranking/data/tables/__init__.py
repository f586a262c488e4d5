"""Arrays and flat tables as users have them, converted to query blocks.

A flat table has one row per document. Roles of its columns, by name and type:

- ``qid`` (required): integers of any width, strings, categoricals or whole floats; no nulls; the
  rows of a query are adjacent;
- ``relevance`` (required): numbers; null or NaN for an unlabelled document;
- ``docid`` (optional): like ``qid``, nulls allowed;
- ``weight`` (optional): the query's weight, from 0 to 1e100, repeated for its documents;
- features: one column of fixed-size lists named ``features``, or else every other column of
  numbers (integers, floats, decimals, booleans). Values must be finite as float32.

Modules: `columns` finds the roles, `rows_to_block` makes blocks, `ids` and `numeric_values` convert
and check values, `query_rows` finds the queries, `feature_names` checks names, `recorded_scalings`
reads and writes the scalings in a table's metadata, and `in_memory` holds the public `from_arrays`
and `from_table`. Errors name the row, the column and the query.
"""
