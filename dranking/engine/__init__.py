"""Work on blocks of queries: threads of this process, or the workers of a Dask cluster.

This package and `dranking.ingestion` alone import Dask. Algorithms see three things: an
`executor.Executor`, which runs tasks; `tiles.Tiles`, which keeps a data set spread over an
executor; and `map_blocks.map_blocks`, which passes over a data set once.

From a task to a sum
--------------------
1. `Tiles` groups the blocks of a data set into tiles (`tile_layout`) and loads each tile in a task.
2. `Tiles.map_blocks` submits one task for each tile. The task runs a function on every block of the
   tile (`tile_tasks.map_values`) and keeps the list of results where the task ran. The driver holds
   futures only, and passes them to later maps as arguments: data and states never travel.
3. `Tiles.sum` submits one task for each tile, which applies the function to the results of the tile
   and adds up the values, then tasks that join 16 neighbouring partial sums each, until 16 are
   left. The driver waits for these (`Executor.gather`) and adds them up. `Tiles.sum_map` maps and
   adds in one task, where nothing else needs the results of blocks. `Tiles.traffic` counts what
   was sent.

Why results do not depend on workers
------------------------------------
Ingest fixes the borders of blocks. A sum adds neighbours in one binary tree whose leaves are the
blocks (`tree_sum`). A task adds up the subtrees that lie in its tile, and further tasks join the
sums of 16 tiles each. The additions and their order are therefore the same in every
bit for any tiles, number of workers, placement, and order of completion. Functions that call BLAS
in a task hold it at one thread (`blas_threads`).

What is computed again
----------------------
When a worker is lost, Dask runs again the tasks whose results the worker held, and the tasks that
these need: Dask first reads a tile from storage again and then repeats every map since. A task may
therefore run more than once, and must give the same bits each time. Blocks in the memory of the
driver are arguments of their task, so that the driver can send them again.

Deadlines, lost schedulers and TLS: see `dranking.engine.cluster`.
"""
