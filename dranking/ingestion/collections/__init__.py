"""Dask collections as data sets, without a copy in the process of the caller.

1. `arguments` makes partitions of the arguments of `fit`: columns of one DataFrame, or arrays that
   `known_arrays` takes, because their rows are the same whenever they are computed.
2. `partitions` turns each partition, where the partition lies, into a `Part`: an Arrow table with a
   digest of its content. The driver receives one line for each query of a part.
3. `block_plan` cuts blocks from these lines, by the rule for data in memory of the same order.
4. `assembly` makes each block in a task, from the part that holds the block's rows. A block that
   crosses the border of two parts receives its rows from both. Where the rows of queries are not
   adjacent, tasks first move the rows to their queries.
5. `engine.placed_dataset` is the data set of these blocks, which stay on the workers.
6. `scores` computes predictions and selected columns, partition by partition.
"""
