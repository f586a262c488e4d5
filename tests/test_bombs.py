"""Small inputs that ask for a lot end in a clear error, within seconds and 1 GB."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

BOMBS = ["a line that expands", "an index of dense text", "nested keys", "a pattern", "pipes"]

SCRIPT = """
import os, resource, sys, time
from pathlib import Path
import dranking as dr
from dranking.bilinear.texts.tfidf import TextVectorizer
from dranking.retrain.config.config import load_config

folder = Path(sys.argv[1])
(folder / "good.txt").write_text("1 qid:1 1:1 2:0\\n0 qid:1 1:0 2:1\\n")
dr.open_dataset(folder / "good.txt").block(0)  # everything is imported and compiled
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, size + 2**30))

def expect(name, error, words, function):
    start = time.process_time()
    try:
        function()
    except error as found:
        assert words in str(found), (name, str(found))
    else:
        raise AssertionError(f"{name}: no error")
    assert time.process_time() - start < 3, name
    print(name)

expect("a line that expands", dr.DataError, "bytes without its end",
       lambda: dr.open_dataset(folder / "bomb.txt.gz"))
expect("an index of dense text", dr.DataError, "999,999,999",
       lambda: dr.open_dataset(folder / "wide.txt"))
expect("nested keys", dr.UsageError, "nested",
       lambda: load_config(folder / "deep.toml", (), {}))
for pattern in ("(?:a+)+$", "(?:a|a)*b", r"(\\w*)*!", r"(a)\\1+", "a*a*a*a*a*b"):
    expect("a pattern", dr.UsageError, "token_pattern",
           lambda: TextVectorizer.fit(["a" * 40 + "!"], token_pattern=pattern))
for name in ("pipe.txt", "pipe.parquet"):
    expect("pipes", dr.DataError, "no regular file", lambda: dr.open_dataset(folder / name))
expect("pipes", dr.UsageError, "no regular file", lambda: load_config(folder / "pipe.txt", (), {}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of memory")
def test_bombs(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.txt.gz", "wb", compresslevel=9) as file:
        file.write(b"1 qid:1 1:")
        for _ in range(200):
            file.write(b"0" * 2**20)
    assert (tmp_path / "bomb.txt.gz").stat().st_size < 250_000
    (tmp_path / "wide.txt").write_text("1 qid:1 999999999:1\n0 qid:1 1:1\n")
    (tmp_path / "deep.toml").write_text("a." * 50_000 + "b = 1\n")
    for name in ("pipe.txt", "pipe.parquet"):
        os.mkfifo(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(dict.fromkeys(done.stdout.split("\n")[:-1])) == BOMBS
