"""Reading LETOR text: throughput against scikit-learn, and memory against the size of the file.

    python -m pipelines.benchmarks.ingest --json [--quick]

The text is MQ2008 (LETOR 4.0), repeated with new query ids up to 200 MB. Where MQ2008 is not there,
the benchmark makes text that looks alike. Our reader gives dense float32 blocks with query ids,
document ids and comments; scikit-learn gives one float64 CSR matrix, without document ids and
comments. All readers read from the page cache.

scikit-learn is also timed without query ids, although ranking needs query ids. With query ids,
scikit-learn copies all ids so far at every line (np.append), so that its time grows with the square
of the file, and the speed-up says little about how fast either program reads. The speed-up without
query ids compares reading alone.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from dranking.ingestion.ingest import ingest
from dranking.ingestion.letor.reader import read_letor
from pipelines.benchmarks.harness import (
    Figure,
    Sample,
    figure,
    interleaved,
    main,
    parser,
    peak_memory,
)

MEGABYTE = 10**6
SIZE = 200 * MEGABYTE
QUICK_SIZE = 60 * MEGABYTE
SMALLER = 4  # times smaller; the smaller file also holds more than a block (some 10 MB of text)

PEERS = {
    "scikit-learn, query_id=False": False,
    "scikit-learn, query_id=True": True,
}


def measure(options: argparse.Namespace) -> list[Figure]:
    parts = sorted((options.data / "letor" / "MQ2008").glob("S[1-5].txt"))
    text = b"".join(part.read_bytes() for part in parts) or synthetic_text()
    name = "MQ2008" if parts else "synthetic text"
    size = QUICK_SIZE if options.quick else SIZE
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder, "large.txt"), Path(folder, "small.txt")
        write_repeated(text, large, size)
        write_repeated(text, small, size // SMALLER)
        name = f"{name}, {large.stat().st_size / MEGABYTE:.0f} MB"
        return throughput(name, large) + memory(name, small, large)


def throughput(name: str, path: Path) -> list[Figure]:
    """Megabytes per second of every reader, and the speed of our reader in times each peer's."""
    seconds = interleaved(
        {
            "reader": partial(read_all, path),
            **{peer: partial(read_sklearn, path, ids) for peer, ids in PEERS.items()},
            "ingest": partial(ingest, path, path.with_suffix(".zarr"), overwrite=True),
        }
    )
    megabytes = path.stat().st_size / MEGABYTE
    figures = [figure(f"read {name}", megabytes / seconds["reader"], "MB/s")]
    for peer in PEERS:
        speedup = seconds[peer] / seconds["reader"]
        figures += [
            figure(f"read {name}: speed-up", speedup, "x", peer=peer, at_least=3),
            figure(f"read {name}: the peer", megabytes / seconds[peer], "MB/s", peer=peer),
        ]
    name = f"ingest {name} to a dataset directory"
    return [*figures, figure(name, megabytes / seconds["ingest"], "MB/s")]


def memory(name: str, small: Path, large: Path, repeats: int = 5) -> list[Figure]:
    """Peak memory of reading a file, and the ratio to that of a smaller file."""
    peaks: dict[Path, list[float]] = {small: [], large: []}
    for _ in range(repeats):
        for path, measured in peaks.items():
            measured.append(peak_memory(partial(warm_up, path), read_all) / MEGABYTE)
    of_small, of_large = (Sample(tuple(measured)) for measured in peaks.values())
    return [
        figure(f"read {name}: peak memory", of_large, "MB"),
        figure(
            f"read {name}: peak memory against a file {SMALLER} times smaller",
            of_large / of_small,
            "x",
            at_most=1.2,  # a query costs some 400 bytes; a reader of whole files would have 4
        ),
    ]


def warm_up(path: Path) -> Path:
    """Compile the reader, and return the path."""
    tiny = path.with_name("tiny.txt")
    tiny.write_bytes(b"0 qid:1 1:1 # comment\n")
    read_all(tiny)
    return path


def read_all(path: Path) -> int:
    """Read every block, keep none of the blocks, and return the number of documents."""
    return sum(block.n_documents for block in read_letor(path))


def read_sklearn(path: Path, query_id: bool) -> int:
    from sklearn.datasets import load_svmlight_file

    return int(load_svmlight_file(str(path), query_id=query_id)[0].shape[0])


def write_repeated(text: bytes, path: Path, size: int) -> None:
    """Write copies of a text up to a size; each copy has query ids of its own."""
    with path.open("wb") as file:
        for copy in count(1):
            part = text.replace(b" qid:", b" qid:%d" % copy)
            room = size - file.tell()
            if len(part) > room:
                file.write(part[: part.rfind(b"\n", 0, room) + 1])
                return
            file.write(part)


def synthetic_text(n_queries: int = 600, n_features: int = 46) -> bytes:
    """Text that looks like MQ2008: many zeros, six decimals, a comment with a document id."""
    rng = np.random.default_rng(0)
    lines = []
    for query in range(10_000, 10_000 + n_queries):
        values = rng.random((20, n_features)) * (rng.random((20, n_features)) < 0.6)
        for document, row in enumerate(values):
            words = " ".join(f"{index}:{value:.6f}" for index, value in enumerate(row, start=1))
            comment = f"docid = GX{query}-{document} inc = 1 prob = {row[0]:.6f}"
            lines.append(f"{document % 3} qid:{query} {words} #{comment}\n")
    return "".join(lines).encode()


if __name__ == "__main__":
    main(measure, parser(__doc__.split("\n", 1)[0]))
