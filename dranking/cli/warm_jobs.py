"""Small jobs that together call every kernel in the way in which the commands call them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import dranking as dr
from dranking.max_margin.bounds.report import risk_bounds
from dranking.metrics.measures.by_name import MEASURES
from dranking.rankrls.gram.statistics_store import build_statistics

N_QUERIES, QUERY_SIZE, N_FEATURES = 12, 10, 6
SELECTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"search": "floating"},
    {"search": {"fitting": "back"}},
)
EPOCH: dict[str, Any] = {"sgd": {"n_epochs": 1, "steps_per_epoch": 50}}


class MadeUp(NamedTuple):
    """The same made-up data as LETOR text, as a dataset directory, and in CSR form."""

    text: Path
    dense: Any
    csr: Any


@contextmanager
def made_up_data() -> Iterator[MadeUp]:
    """Data of `N_QUERIES` queries, two documents of each without relevance, while in context."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(N_QUERIES), QUERY_SIZE)
    X = rng.normal(size=(len(qid), N_FEATURES)).round(3).astype(np.float32)
    y = np.clip(np.round(X[:, 1] - X[:, 2] + rng.normal(size=len(X))), 0, 2)
    y[:: QUERY_SIZE // 2] = -1
    with tempfile.TemporaryDirectory(prefix="dranking-warm-") as name:
        text = Path(name) / "data.txt"
        with text.open("w", encoding="ascii") as file:
            for number, (x, relevance, query) in enumerate(zip(X, y, qid, strict=True)):
                values = " ".join(f"{i}:{v}" for i, v in enumerate(x.tolist(), start=1))
                file.write(f"{relevance:.0f} qid:{query} {values} #docid = d{number}\n")
        dense, _ = dr.ingest([text], Path(name) / "data.zarr")
        zeros = sparse.csr_array(np.where(X > 0, X, 0).astype(np.float32))
        csr = dr.from_arrays(zeros, np.where(y < 0, np.nan, y), qid=qid)
        yield MadeUp(text, dense, csr)


def _fitted(*makers: Callable[[], Any]) -> Callable[[MadeUp], None]:
    """A job that fits rankers to dense and to sparse features."""

    def job(data: MadeUp) -> None:
        for make in makers:
            for features in (data.dense, data.csr):
                make().fit(features)

    return job


def _selected(data: MadeUp) -> None:
    for features in (data.dense, data.csr):
        for options in SELECTIONS:
            model = dr.GreedyRankRLS(3, **options).fit(features)
        model.predict(features)
    dr.GreedyRankRLS(3, passes={"feature_blocks": 2}).fit(data.dense)


def _tuned(data: MadeUp) -> None:
    for features in (data.dense, data.csr):
        dr.tune(
            features,
            [0.1, 1.0],
            validation="leave-query-out",
            max_features=2,
            metric="ndcg@3",
        )
    dr.GreedyRankRLS(2).fit(build_statistics(data.dense, data.text.with_name("statistics")))


def _evaluated(data: MadeUp) -> None:
    names = [spelling.replace("@K", "@3") for f in MEASURES.values() for spelling in f.spellings]
    names.remove("infap")  # has no kernel, and is refused where ties are averaged
    model = dr.RankRLS().fit(data.dense).to_model()
    for convention in ("standard", "letor4"):
        dr.evaluate(model, data.dense, names, convention)
    risk_bounds(model, data.dense)


def _bilinear(data: MadeUp) -> None:
    topics = dr.text_collection(
        ["cat dog", "dog bird", "bird cat fish", "fish dog"], labels=list("abab"), stop_words=None
    )
    judged = (topics, dr.same_class(topics))
    model = dr.BilinearRanker(n_steps=20, random_state=0).fit(topics, validation=judged).to_model()
    model.scores(["cat"], ["dog"])


JOBS: dict[str, Callable[[MadeUp], None]] = {
    "select": _selected,
    "tune": _tuned,
    "evaluate": _evaluated,
    "train rankrls": _fitted(dr.RankRLS, lambda: dr.RankRLSCV([0.1, 1.0])),
    "train ranksvm": _fitted(
        lambda: dr.RankSVM(0.1), lambda: dr.RankSVM(0.1, "hinge"), lambda: dr.RankLogistic(0.1)
    ),
    "train spd": _fitted(lambda: dr.SPD(0.01, **EPOCH)),
    "train lcra": _fitted(lambda: dr.LCRA(0.01, **EPOCH)),
    "train max-margin": _fitted(
        lambda: dr.MaxMarginRanker(0.1, "ap", tol=0.1),
        lambda: dr.MaxMarginRanker(0.1, "ndcg", tol=0.1),
        lambda: dr.MaxMarginRanker(0.1, "pairwise", tol=0.1),
        lambda: dr.MaxMarginRanker(10.0, "ap", form="sum", max_iter=2),
    ),
    "train bilinear": _bilinear,
}
