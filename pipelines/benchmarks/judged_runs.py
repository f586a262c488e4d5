"""Processor seconds of measures of 1,000 queries x 1,000 documents, with ranx and ir_measures.

    python -m pipelines.benchmarks.judged_runs --json [--quick]

ranx (`pip install ranx`) evaluates with one thread, after a first call that compiles; ir_measures
evaluates with pytrec_eval. All three get the same dictionaries, or what they make of them before
the clock starts. The means of all three are equal.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import ir_measures
import numba
import numpy as np

import dranking as dr
from dranking.metrics.judged_runs import as_judgements, as_run
from pipelines.benchmarks.harness import (
    Figure,
    figure,
    interleaved,
    main,
    parser,
    processor_seconds,
)

MEASURES = {
    "map": ("map", ir_measures.AP),
    "mrr": ("mrr", ir_measures.RR),
    "p@10": ("precision@10", ir_measures.P @ 10),
    "recall@100": ("recall@100", ir_measures.R @ 100),
    "ndcg@10": ("ndcg@10", ir_measures.nDCG @ 10),
    "ndcg": ("ndcg", ir_measures.nDCG),
}
"""Names of dranking, and those of ranx and ir_measures."""


def made_run(
    n_queries: int, n_documents: int
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """A run without ties, and 40 judgements of each query, 10 of which were not retrieved."""
    rng = np.random.default_rng(0)
    run, judged = {}, {}
    for q in range(n_queries):
        documents = [f"doc{n}" for n in rng.choice(100_000, n_documents, replace=False)]
        scores = np.sort(rng.permutation(4 * n_documents)[:n_documents])[::-1] / 8
        run[f"q{q}"] = dict(zip(documents, scores.tolist(), strict=True))
        known = [*documents[:60:2], *(f"other{n}" for n in range(10))]
        grades = rng.integers(0, 4, len(known)).tolist()
        judged[f"q{q}"] = dict(zip(known, grades, strict=True))
    return run, judged


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Times of the peers over ours, from dictionaries and from what each tool makes of them."""
    import ranx

    numba.set_num_threads(1)
    n = 100 if options.quick else 1_000
    run, judged = made_run(n, n)
    names = list(MEASURES)
    of_ranx = [name for name, _ in MEASURES.values()]
    of_measures = [measure for _, measure in MEASURES.values()]
    ours, theirs = (as_run(run), as_judgements(judged)), (ranx.Qrels(judged), ranx.Run(run))
    evaluator = ir_measures.evaluator(of_measures, judged)

    def of_dictionaries() -> dict[str, float]:
        return ranx.evaluate(ranx.Qrels(judged), ranx.Run(run), of_ranx)

    ways = {
        "dranking": lambda: dr.evaluate(run, judged, names).metrics,
        "dranking, prepared": lambda: dr.evaluate(*ours, names).metrics,
        "ranx": of_dictionaries,
        "ranx, prepared": lambda: ranx.evaluate(*theirs, of_ranx),
        "ir_measures": lambda: evaluator.calc_aggregate(run),
    }
    means = {way: list(function().values()) for way, function in ways.items()}
    means["ir_measures"] = [evaluator.calc_aggregate(run)[m] for m in of_measures]
    for way, values in means.items():
        np.testing.assert_allclose(values, means["dranking"], rtol=1e-9, err_msg=way)
    spent = interleaved(ways, clock=processor_seconds)
    size = f"{n:,} x {n:,}"
    return [
        figure(f"{size}: dranking from dictionaries", spent["dranking"], "s"),
        figure(
            f"{size}: ranx over dranking, from dictionaries",
            spent["ranx"] / spent["dranking"],
            "",
            at_least=1.0,
        ),
        figure(f"{size}: dranking, prepared", spent["dranking, prepared"], "s"),
        figure(
            f"{size}: ranx over dranking, prepared",
            spent["ranx, prepared"] / spent["dranking, prepared"],
            "",
            at_least=1.0,
        ),
        figure(
            f"{size}: ir_measures over dranking, from dictionaries",
            spent["ir_measures"] / spent["dranking"],
            "",
            at_least=1.0,
        ),
    ]


if __name__ == "__main__":
    main(measure, parser("Evaluation of runs beside judgements, against ranx and ir_measures."))
