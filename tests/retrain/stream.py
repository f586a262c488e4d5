"""A stream of nights: LETOR text of judged queries, like MQ2008, with slowly drifting features."""

from pathlib import Path

import numpy as np

N_FEATURES = 8


class Stream:
    """Writes the files of nights and the held-out queries to a folder.

    Bounds of a report sum over all rankings of a held-out list: 720 of six documents, 40,320 of
    eight.
    """

    def __init__(self, folder: Path, n_queries: int = 12, n_judged_documents: int = 8) -> None:
        self.folder = folder
        self.n_queries = n_queries
        (folder / "incoming").mkdir(parents=True)
        judged = {"n_queries": 60, "n_documents": n_judged_documents}
        self.write_queries(folder / "holdout.txt", night=0, seed=999, **judged)

    def night(self, night: int, **changes) -> Path:
        path = self.folder / "incoming" / f"night-{night:02d}.txt"
        self.write_queries(path, night, self.n_queries, seed=night, **changes)
        return path

    def write_queries(self, path, night, n_queries, seed, n_documents=8, shift=0.0, sign=1.0):
        rng = np.random.default_rng(seed)
        weights = np.array([2.0, -1.0, 0.5, 1.0, 0, 0, 0, 0])
        weights[4] = night / 30  # the weight of this feature grows over the month
        with path.open("w") as file:
            for query in range(n_queries):
                X = rng.normal(0.01 * night + shift, 1, (n_documents, N_FEATURES))
                score = sign * (X @ weights) + rng.normal(0, 0.5, n_documents)
                grades = np.digitize(score, [0.5, 2.5])
                for document, (grade, row) in enumerate(zip(grades, X, strict=True)):
                    values = " ".join(f"{j}:{v:.5f}" for j, v in enumerate(row, start=1))
                    file.write(f"{grade} qid:{seed:03d}{query:03d} {values} #docid = {document}\n")

    def config(self, **overrides) -> str:
        """Write a configuration and return its path."""
        path = self.folder / "retrain.toml"
        path.write_text(
            f"""
            [data]
            train = "{self.folder}/incoming/*.txt"
            holdout = "{self.folder}/holdout.txt"
            [model]
            regularization = "2^-2..2^2"
            n_features = 4
            [tune]
            criterion = "lqo-squared_error"
            [gate]
            resamples = 200
            false_promotions_per_year = 1000
            max_drift = 1.0
            [export]
            formats = ["solr"]
            report = false
            [registry]
            location = "{self.folder}/registry"
            [run]
            work = "{self.folder}/work"
            """
        )
        return str(path)
