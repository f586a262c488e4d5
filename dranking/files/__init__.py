"""Files that every package writes: whole or not at all, checked as they are read, without secrets.

| module | what it is for | who uses it |
| --- | --- | --- |
| `places` | a local path or an fsspec URL as one type | all that is read and written |
| `requests` | retries of requests to stores, and errors that stores cause | all below |
| `reading` | ranged and concurrent reads of checked length | all that is read |
| `json_files` | JSON of bounded size; seals; flaws are ValueErrors | manifests, models |
| `checksums` | CRC-32C of bytes and files | data sets, statistics, array folders |
| `key_values` | settings written as ``key=value`` | command line, retrain's configuration |

`writing` has what writes:

| module | what it is for | who uses it |
| --- | --- | --- |
| `atomic_files` | a file, whole or not at all | all files that are written |
| `commit` | a directory of parts, whole or not at all | all directories that are written |
| `output_checks` | what is at a place, and whether it may be replaced | both writers |
| `clean` | removal of what killed writers left | command line |
| `local_output` | temporary name, fsync, rename; leftovers of killed processes | both writers |
| `object_store` | objects written on a condition, in one request | both writers, `locks` |
| `locks` | file locks, and leases in stores | `commit`, registry, runs |
| `debris` | names of parts, and removal of parts that no manifest names | `commit` |
| `links` | files that two directories share | data sets that take over segments |

`folders` has what reads directories, and arrays in them:

| module | what it is for | who uses it |
| --- | --- | --- |
| `manifests` | validated ``manifest.json`` of a directory | data sets, statistics, array folders |
| `verified_folder` | files of a block, checked against the manifest | data sets, statistics |
| `array_folder` | .npy files and facts in a directory | collections, bilinear models, checkpoints |

The writers are `atomic_files` and `commit`. Every directory of the project holds a
``manifest.json`` whose "format" begins with ``dranking-``. The manifest is written last, and a non-
empty directory without one is never overwritten. This package imports only `dranking.errors` and
`dranking.redaction`. The module of a file format that a single kind of directory uses lies beside
that kind's reader: Zarr arrays in `dranking.data.store`, row files in
`dranking.rankrls.statistics`.
"""
