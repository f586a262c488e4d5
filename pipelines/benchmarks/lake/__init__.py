"""Benchmarks of the data plane: ``python -m pipelines.benchmarks.lake``.

`topics` names all topics, and measures those of the index, of object stores and of dask DataFrames.
The other topics have modules of their own: `store` (reading, selection, decoder), `scale` (predict,
growth, growth-in-store), `ingest` (ingest, processes, unordered), `planner` and `exchange`
(planner). `trial` holds what each topic is given.
"""
