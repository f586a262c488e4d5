"""Arrays and flat tables as users have them, converted to query blocks.

A flat table has one row per document. Roles of its columns, by name and type:

- query ids (``qid``): integers of any width, strings, categoricals or whole floats; no nulls;
  rows of a query that lie apart are brought together;
- grades (``relevance``): numbers from -1e50 to 1e50; null or NaN for an unlabelled document;
- document ids (``docid``, optional): like query ids, nulls allowed;
- weights (``weight``, optional): the query's weight, from 0 to 1e50, repeated for its documents;
- features: one column of fixed-size lists named ``features``, or else all other columns, which
  must be numbers (integers, floats, decimals, booleans): columns of other types are an error.
  Values are rounded to float32 and must be finite there.

`dranking.data.roles.Columns` gives the roles to columns of other names, and chooses the features.

Modules: `columns` finds the roles, `rows_to_block` makes blocks, `ids` and `numeric_values` convert
and check values, `query_rows` finds the queries, `feature_names` checks names, `recorded_steps`
reads and writes the scalings in a table's metadata, `alignment` joins values to rows by index and
weights to queries by id, and `in_memory` holds the public `from_arrays`
and `from_table`. Errors name the row, the column and the query.
"""
