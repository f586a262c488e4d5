"""NDCG@10 of `dranking tune` without options, against gradient boosted trees on the same data.

The peer is LightGBM's lambdarank, with its defaults, and with early stopping over a small grid: the
rounds are found on a fifth of the training queries, and the trees are trained again on all of them.
Both rankers get the same rows, and one evaluator measures both. A figure is the mean difference on
test queries; its interval, at 95 %, is paired by query.

- MQ2008: five times four parts are trained on and the fifth is tested. Its features were scaled
  within queries by its makers. Its test queries have been looked at in the development of the
  search.
- Posts: a query is the subject of a post of 20 Newsgroups, its documents are posts that share
  words, of the same group (grade 2), of a group of the same branch (1), or neither (0). Features
  are raw counts, lengths and sums as search engines log them.
"""

from __future__ import annotations

import argparse
import re
import tarfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dranking as dr
from dranking.data.dataset import Dataset
from pipelines.benchmarks.harness import Figure, figure, main, parser, skipped

Array = NDArray[Any]
Peer = Callable[["Rows", "Rows"], Array]

METRIC = "ndcg@10"
LEAST = -0.005
"""The lower end of the interval that the product promises."""

N_POSTS, N_CANDIDATES, DEPTH = 800, 40, 150
"""Number of queries of posts, documents of a query, and matches among which they are drawn."""

LEARNING_RATES, LEAVES, MOST_ROUNDS, PATIENCE = (0.05, 0.1), (7, 31), 400, 50
"""The grid of the peer with early stopping."""


class Rows(NamedTuple):
    """Features (n, n_features), grades (n,) and query numbers (n,), queries together."""

    X: Array
    y: Array
    qid: Array

    def where(self, is_kept: Array) -> Rows:
        """The rows of a mask."""
        return Rows(self.X[is_kept], self.y[is_kept], self.qid[is_kept])

    @property
    def sizes(self) -> Array:
        """Number of rows of each query."""
        borders = np.flatnonzero(np.diff(self.qid, prepend=-1, append=-1))
        return np.diff(borders)

    def dataset(self) -> Dataset:
        """The rows as a data set."""
        return dr.from_arrays(self.X, self.y, qid=self.qid)


def measure(options: argparse.Namespace) -> list[Figure]:
    """Differences to the peers on all data sets that are there."""
    figures: list[Figure] = []
    for name, make in (("MQ2008", letor_splits), ("posts", post_splits)):
        if not (splits := list(make(options.data, options.quick))):
            figures.append(skipped(f"{name}: difference", METRIC, "the data is not there"))
            continue
        figures += compared(name, splits, options.time)
    for peer in PEERS:
        of_sets = [e.value for e in figures if e.peer == peer and e.name.endswith(": difference")]
        known = [value for value in of_sets if value is not None]
        if known:
            mean = float(np.mean(known))
            figures.append(figure("mean difference", mean, METRIC, peer=peer, at_least=0.0))
    return figures


def compared(name: str, splits: list[tuple[Rows, Rows]], seconds: float | None) -> list[Figure]:
    """The differences on the test queries of all splits together, and the time of a search."""
    tested = Rows(
        *(np.concatenate(columns) for columns in zip(*(t for _, t in splits), strict=True))
    )
    judged, begun, ours, n_terms = tested.dataset(), time.perf_counter(), [], []
    for train, test in splits:
        model = dr.tune(train.dataset(), time_limit=seconds).model
        ours.append(model.predict(test.dataset()))
        n_terms.append(len(model.weights))
    took = (time.perf_counter() - begun) / len(splits)
    found = dr.evaluate(np.concatenate(ours), judged, [METRIC])
    figures = [
        figure(f"{name}: tune", found.metrics[METRIC], METRIC),
        figure(f"{name}: largest number of terms", float(max(n_terms)), "terms", at_most=20),
        figure(f"{name}: seconds of a search", took, "s"),
    ]
    for peer, fit in PEERS.items():
        if find_spec("lightgbm") is None:
            figures.append(skipped(f"{name}: difference", METRIC, "no LightGBM", peer=peer))
            continue
        theirs = dr.evaluate(np.concatenate([fit(*each) for each in splits]), judged, [METRIC])
        [entry] = dr.compare(found, theirs).metrics
        figures += [
            figure(f"{name}: peer", entry.mean_b, METRIC, peer=peer),
            figure(f"{name}: difference", entry.difference, METRIC, peer=peer),
            figure(f"{name}: its lower end", entry.low, METRIC, peer=peer, at_least=LEAST),
        ]
    return figures


def boosted(train: Rows, test: Rows) -> Array:
    """Scores of LightGBM's lambdarank with its defaults."""
    return _trained(train, {}, 100).predict(test.X)


def stopped_early(train: Rows, test: Rows) -> Array:
    """Scores of LightGBM's lambdarank with the best of a grid, and with early stopping."""
    import lightgbm

    queries = np.unique(train.qid)
    drawn = np.random.default_rng(0).permutation(queries)[: len(queries) // 5]
    is_held_out = np.isin(train.qid, drawn)
    rest, held_out = train.where(~is_held_out), train.where(is_held_out)
    tried = []
    for rate in LEARNING_RATES:
        for leaves in LEAVES:
            chosen = {"learning_rate": rate, "num_leaves": leaves}
            stop = lightgbm.early_stopping(PATIENCE, verbose=False)
            valid = lightgbm.Dataset(held_out.X, held_out.y, group=held_out.sizes)
            fitted = _trained(rest, chosen, MOST_ROUNDS, valid_sets=[valid], callbacks=[stop])
            tried.append((fitted.best_score["valid_0"]["ndcg@10"], fitted.best_iteration, chosen))
    _, n_rounds, chosen = max(tried, key=lambda each: each[0])
    return _trained(train, chosen, n_rounds).predict(test.X)


PEERS: dict[str, Peer] = {
    "LightGBM, defaults": boosted,
    "LightGBM, early stopping": stopped_early,
}


def _trained(rows: Rows, chosen: dict[str, Any], n_rounds: int, **options: Any) -> Any:
    import lightgbm

    fixed = {"objective": "lambdarank", "eval_at": [10], "verbose": -1, "seed": 1}
    data = lightgbm.Dataset(rows.X, rows.y, group=rows.sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lightgbm.train({**fixed, **chosen}, data, n_rounds, **options)


def letor_splits(folder: Path, quick: bool) -> Iterator[tuple[Rows, Rows]]:
    """Four parts of MQ2008 and the fifth; one such split for a first look."""
    files = [folder / "letor" / "MQ2008" / f"S{number}.txt" for number in range(1, 6)]
    if not all(file.is_file() for file in files):
        return
    parts = [_rows(dr.open_dataset(file)) for file in files]
    for index, test in enumerate(parts[:1] if quick else parts):
        rest = [part for number, part in enumerate(parts) if number != index]
        yield Rows(*(np.concatenate(columns) for columns in zip(*rest, strict=True))), test


def _rows(dataset: Dataset) -> Rows:
    blocks = list(dataset.read_blocks())
    ids = [np.repeat(b.query_ids.to_pylist(), np.diff(b.query_ptr)) for b in blocks]
    features = np.concatenate([block.features for block in blocks])
    return Rows(
        features,
        np.concatenate([block.relevance for block in blocks]),
        np.concatenate(ids).astype(np.int64),
    )


class Post(NamedTuple):
    """A post: its group, the words of its subject, and its body."""

    group: str
    subject: list[str]
    body: str


def post_splits(folder: Path, quick: bool) -> Iterator[tuple[Rows, Rows]]:
    """Three quarters of the queries of posts, and the last quarter."""
    file = folder / "20news" / "20news-bydate.tar.xz"
    if not file.is_file():
        return
    rows = post_rows(_posts(file), N_POSTS // 4 if quick else N_POSTS)
    is_test = rows.qid >= 3 * (rows.qid.max() + 1) // 4
    yield rows.where(~is_test), rows.where(is_test)


def _posts(file: Path) -> list[Post]:
    posts = []
    with tarfile.open(file) as archive:
        for member in archive:
            if (content := archive.extractfile(member)) is None:
                continue
            head, _, body = content.read().decode("latin-1").partition("\n\n")
            subject = re.search(r"^Subject:(?: *[Rr][Ee]:)*(.*)$", head, re.MULTILINE)
            words = _words(subject[1] if subject else "")
            posts.append(Post(member.name.split("/")[-2], words, body))
    return posts


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]{2,}", text.lower())


def post_rows(posts: list[Post], n_queries: int) -> Rows:
    """Queries and their documents, drawn from the posts that share words with the query."""
    rng = np.random.default_rng(5)
    bodies = [_words(post.body) for post in posts]
    fields = [Field([post.subject for post in posts]), Field(bodies)]
    shapes = np.array([_shape(post.body, words) for post, words in zip(posts, bodies, strict=True)])
    asked = [i for i, post in enumerate(posts) if 2 <= len(set(post.subject)) <= 10]
    X, y, qid = [], [], []
    for number, i in enumerate(rng.permutation(asked)[:n_queries].tolist()):
        query = list(dict.fromkeys(posts[i].subject))
        scores = sum(field.bm25(query) for field in fields)
        order = [j for j in np.argsort(-scores)[:DEPTH] if scores[j] > 0]
        found = [j for j in order if posts[j].subject != posts[i].subject]
        for j in rng.permutation(found)[:N_CANDIDATES].tolist():
            X.append(np.concatenate([*(field.features(query, j) for field in fields), shapes[j]]))
            same = posts[j].group == posts[i].group
            branch = posts[j].group.split(".")[0] == posts[i].group.split(".")[0]
            y.append(2 if same else int(branch))
            qid.append(number)
    return Rows(np.array(X, dtype=np.float32), np.array(y), np.array(qid))


class Field:
    """One field of all posts: the counts of its words, and what a search engine derives of them."""

    def __init__(self, texts: list[list[str]]) -> None:
        self._counts = [Counter(words) for words in texts]
        self._lengths = np.array([max(len(words), 1) for words in texts], dtype=float)
        self._posts: dict[str, list[int]] = {}
        for i, counts in enumerate(self._counts):
            for word in counts:
                self._posts.setdefault(word, []).append(i)

    def _idf(self, word: str) -> float:
        n, total = len(self._posts.get(word, ())), len(self._counts)
        return float(np.log1p((total - n + 0.5) / (n + 0.5)))

    def _saturated(self, counts: Array, at: Any) -> Array:
        share = self._lengths[at] / self._lengths.mean()
        found: Array = counts * 2.2 / (counts + 1.2 * (0.25 + 0.75 * share))
        return found

    def bm25(self, query: list[str]) -> Array:
        """(n_posts,) BM25 of all posts."""
        scores = np.zeros(len(self._counts))
        for word in query:
            if at := self._posts.get(word):
                counts = np.array([self._counts[i][word] for i in at], dtype=float)
                scores[at] += self._idf(word) * self._saturated(counts, at)
        return scores

    def features(self, query: list[str], i: int) -> Array:
        """Counts of the query's words in a post, their sums and extremes, and its length."""
        counts = np.array([self._counts[i][word] for word in query], dtype=float)
        idf, length = np.array([self._idf(word) for word in query]), self._lengths[i]
        found = [float((counts > 0).sum()), float((counts > 0).mean()), length, idf.sum()]
        for values in (counts, counts / length, counts * idf):
            found += [values.sum(), values.min(), values.max(), values.mean(), values.var()]
        return np.array([*found, (idf * self._saturated(counts, i)).sum()])


def _shape(body: str, words: list[str]) -> list[float]:
    """Facts about a body that do not depend on the query."""
    letters = max(len(body), 1)
    return [
        body.count("\n"),
        body.count("\n>"),
        sum(letter.isdigit() for letter in body),
        sum(letter.isupper() for letter in body) / letters,
        body.count("?"),
        len(set(words)),
    ]


def options() -> argparse.ArgumentParser:
    """The parser of the command line."""
    options = parser(__doc__.splitlines()[0])
    options.add_argument(
        "--time", type=float, metavar="SECONDS", help="time of each search (default: no limit)"
    )
    return options


if __name__ == "__main__":
    main(measure, options())
